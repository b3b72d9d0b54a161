(* Derivatives of formulas with indexed sums whose sizes stay symbols.

   `total n f` is the sum of f 0, ..., f (n - 1), for any n, 0 as well. A certificate that tinytensor writes uses

     push      one formula, backward: the derivative of w times the formula, with w moved down to the entries in it
     totals    two ways to write the same nested sum
     sums      equality of two formulas with sums and Kronecker's delta, by distributing, contracting and `field`

   and the scalar functions below. Everything here is proved; the axioms are those of Coq's real numbers. *)
From Coq Require Import Reals Arith Lia Lra FunctionalExtensionality.
From Coquelicot Require Import Coquelicot.
Open Scope R_scope.

(* ---- sums ---- *)

Fixpoint total (n : nat) (f : nat -> R) : R :=
  match n with O => 0 | S m => total m f + f m end.

Notation "'Σ' k < n , e" := (total n (fun k => e)) (at level 200, k name, n at level 9, e at level 200).

Lemma total_ext : forall n f g, (forall k, (k < n)%nat -> f k = g k) -> total n f = total n g.
Proof.
  induction n as [|n IH]; intros f g H; simpl; [reflexivity|].
  rewrite (IH f g) by (intros; apply H; lia). rewrite (H n) by lia. reflexivity.
Qed.

Lemma total_zero : forall n, total n (fun _ => 0) = 0.
Proof. induction n as [|n IH]; simpl; [|rewrite IH]; lra. Qed.

Lemma total_const : forall n c, total n (fun _ => c) = INR n * c.
Proof. induction n as [|n IH]; intros c; [simpl; ring|]. rewrite S_INR. simpl. rewrite IH. ring. Qed.

Lemma total_plus : forall n f g, total n (fun k => f k + g k) = total n f + total n g.
Proof. induction n as [|n IH]; intros; simpl; [|rewrite IH]; lra. Qed.

Lemma total_opp : forall n f, total n (fun k => - f k) = - total n f.
Proof. induction n as [|n IH]; intros; simpl; [|rewrite IH]; lra. Qed.

Lemma total_minus : forall n f g, total n (fun k => f k - g k) = total n f - total n g.
Proof. induction n as [|n IH]; intros; simpl; [|rewrite IH]; lra. Qed.

Lemma total_left : forall n c f, total n (fun k => c * f k) = c * total n f.
Proof. induction n as [|n IH]; intros; simpl; [|rewrite IH]; ring. Qed.

Lemma total_right : forall n c f, total n (fun k => f k * c) = total n f * c.
Proof. induction n as [|n IH]; intros; simpl; [|rewrite IH]; ring. Qed.

Lemma total_swap : forall n m (f : nat -> nat -> R),
  total n (fun i => total m (fun j => f i j)) = total m (fun j => total n (fun i => f i j)).
Proof.
  induction n as [|n IH]; intros; simpl; [now rewrite total_zero|].
  rewrite IH. rewrite <- total_plus. reflexivity.
Qed.

Lemma total_times : forall n f g c, (forall k, (k < n)%nat -> f k = g k * c) -> total n f = total n g * c.
Proof. intros n f g c H. rewrite <- total_right. now apply total_ext. Qed.

Lemma total_positive : forall n f, (0 < n)%nat -> (forall k, (k < n)%nat -> 0 < f k) -> 0 < total n f.
Proof.
  induction n as [|n IH]; intros f Hn H; [lia|]. simpl. destruct n as [|n].
  - simpl. rewrite Rplus_0_l. apply H. lia.
  - apply Rplus_lt_0_compat; [apply IH; [lia|intros; apply H; lia]|apply H; lia].
Qed.

Lemma total_not_negative : forall n f, (forall k, (k < n)%nat -> 0 <= f k) -> 0 <= total n f.
Proof.
  induction n as [|n IH]; intros f H; simpl; [lra|].
  apply Rplus_le_le_0_compat; [apply IH; intros; apply H; lia|apply H; lia].
Qed.

(* ---- Kronecker's delta, comparisons of whole numbers, and one entry replaced ---- *)

Definition delta (i j : nat) : R := if Nat.eqb i j then 1 else 0.
Definition upto (i j : nat) : R := if Nat.leb i j then 1 else 0.

Lemma delta_same : forall i, delta i i = 1.
Proof. intros. unfold delta. now rewrite Nat.eqb_refl. Qed.

Lemma delta_other : forall i j, i <> j -> delta i j = 0.
Proof. intros i j H. unfold delta. now rewrite (proj2 (Nat.eqb_neq i j) H). Qed.

Lemma delta_sym : forall i j, delta i j = delta j i.
Proof. intros. unfold delta. now rewrite Nat.eqb_sym. Qed.

Lemma delta_not_negative : forall i j, 0 <= delta i j.
Proof. intros. unfold delta. destruct (Nat.eqb i j); lra. Qed.

Lemma upto_not_negative : forall i j, 0 <= upto i j.
Proof. intros. unfold upto. destruct (Nat.leb i j); lra. Qed.

Lemma total_delta : forall n j f, (j < n)%nat -> total n (fun k => delta k j * f k) = f j.
Proof.
  induction n as [|n IH]; intros j f H; [lia|]. simpl. destruct (Nat.eq_dec j n) as [->|E].
  - rewrite delta_same. rewrite (total_ext n _ (fun _ => 0)).
    + rewrite total_zero. ring.
    + intros k Hk. rewrite delta_other by lia. ring.
  - rewrite IH by lia. rewrite delta_other by lia. ring.
Qed.

(* a delta wherever it stands in a product *)
Lemma total_contract : forall n j f g, (j < n)%nat -> total n (fun k => f k * (delta k j * g k)) = f j * g j.
Proof.
  intros n j f g H. rewrite <- (total_delta n j (fun k => f k * g k) H). apply total_ext. intros. ring.
Qed.

Lemma total_contract' : forall n j f g, (j < n)%nat -> total n (fun k => f k * (delta j k * g k)) = f j * g j.
Proof.
  intros n j f g H. rewrite <- (total_contract n j f g H). apply total_ext. intros. now rewrite (delta_sym j).
Qed.

Lemma introduce : forall n j c (v : nat -> R), (j < n)%nat -> c * v j = total n (fun k => (c * delta k j) * v k).
Proof.
  intros n j c v H. rewrite <- (total_delta n j (fun k => c * v k) H). apply total_ext. intros. ring.
Qed.

Definition put1 (x : nat -> R) (j : nat) (s : R) : nat -> R := fun k => if Nat.eqb k j then s else x k.
Definition put2 (x : nat -> nat -> R) (i j : nat) (s : R) : nat -> nat -> R :=
  fun k => if Nat.eqb k i then put1 (x k) j s else x k.
Definition put3 (x : nat -> nat -> nat -> R) (h i j : nat) (s : R) : nat -> nat -> nat -> R :=
  fun k => if Nat.eqb k h then put2 (x k) i j s else x k.
Definition put4 (x : nat -> nat -> nat -> nat -> R) (g h i j : nat) (s : R) : nat -> nat -> nat -> nat -> R :=
  fun k => if Nat.eqb k g then put3 (x k) h i j s else x k.

Lemma put1_same : forall x j, put1 x j (x j) = x.
Proof. intros. apply functional_extensionality. intro k. unfold put1. destruct (Nat.eqb_spec k j); now subst. Qed.

Lemma put2_same : forall x i j, put2 x i j (x i j) = x.
Proof.
  intros. apply functional_extensionality. intro k. unfold put2. destruct (Nat.eqb_spec k i); subst; auto using put1_same.
Qed.

Lemma put3_same : forall x h i j, put3 x h i j (x h i j) = x.
Proof.
  intros. apply functional_extensionality. intro k. unfold put3. destruct (Nat.eqb_spec k h); subst; auto using put2_same.
Qed.

Lemma put4_same : forall x g h i j, put4 x g h i j (x g h i j) = x.
Proof.
  intros. apply functional_extensionality. intro k. unfold put4. destruct (Nat.eqb_spec k g); subst; auto using put3_same.
Qed.

Lemma const_moves : forall c s : R, is_derive (fun _ : R => c) s 0.
Proof. intros. apply (is_derive_const c s). Qed.

Lemma id_moves : forall s : R, is_derive (fun r : R => r) s 1.
Proof. intros. apply (is_derive_id s). Qed.

Lemma put1_moves : forall x j k s, is_derive (fun s => put1 x j s k) s (delta k j).
Proof.
  intros. unfold put1, delta. destruct (Nat.eqb k j); [apply (is_derive_id s)|apply (is_derive_const (x k) s)].
Qed.

Lemma put2_moves : forall x i j k l s, is_derive (fun s => put2 x i j s k l) s (delta k i * delta l j).
Proof.
  intros. unfold put2. unfold delta at 1. destruct (Nat.eqb k i).
  - rewrite Rmult_1_l. apply put1_moves.
  - rewrite Rmult_0_l. apply (is_derive_const (x k l) s).
Qed.

Lemma put3_moves : forall x h i j k l m s,
  is_derive (fun s => put3 x h i j s k l m) s (delta k h * (delta l i * delta m j)).
Proof.
  intros. unfold put3. unfold delta at 1. destruct (Nat.eqb k h).
  - rewrite Rmult_1_l. apply put2_moves.
  - rewrite Rmult_0_l. apply (is_derive_const (x k l m) s).
Qed.

Lemma put4_moves : forall x g h i j k l m p s,
  is_derive (fun s => put4 x g h i j s k l m p) s (delta k g * (delta l h * (delta m i * delta p j))).
Proof.
  intros. unfold put4. unfold delta at 1. destruct (Nat.eqb k g).
  - rewrite Rmult_1_l. apply put3_moves.
  - rewrite Rmult_0_l. apply (is_derive_const (x k l m p) s).
Qed.

(* ---- scalar functions, and their derivatives ---- *)

Definition sigmoid (x : R) : R := 1 / (1 + exp (- x)).
Definition softplus (x : R) : R := ln (1 + exp x).
Definition relu (x : R) : R := if Rlt_dec 0 x then x else 0.
Definition theta (x : R) : R := if Rlt_dec 0 x then 1 else 0.
Definition sign (x : R) : R := if Rlt_dec 0 x then 1 else if Rlt_dec x 0 then -1 else 0.
Definition same (x : R) : R := if Req_EM_T x 0 then 1 else 0.
Definition sinc (x : R) : R := if Req_EM_T x 0 then 1 else sin (PI * x) / (PI * x).
Definition larger (x y : R) : R := if Rlt_dec y x then x else y.
Definition density (x : R) : R := exp (- (x ^ 2) / 2) / sqrt (2 * PI).
Definition Phi (x : R) : R := 1 / 2 + RInt density 0 x.
Definition erf (x : R) : R := RInt (fun u => 2 * exp (- (u ^ 2)) / sqrt PI) 0 x.

Lemma exp_derive : forall x, is_derive exp x (exp x).
Proof. intros. apply is_derive_Reals, derivable_pt_lim_exp. Qed.

Lemma ln_derive : forall x, 0 < x -> is_derive ln x (1 / x).
Proof. intros. unfold Rdiv. rewrite Rmult_1_l. now apply is_derive_Reals, derivable_pt_lim_ln. Qed.

Lemma sqrt_derive : forall x, 0 < x -> is_derive sqrt x (1 / (2 * sqrt x)).
Proof.
  intros. unfold Rdiv. rewrite Rmult_1_l. now apply is_derive_Reals, derivable_pt_lim_sqrt.
Qed.

Lemma inv_derive : forall x, x <> 0 -> is_derive Rinv x (- (1 / x ^ 2)).
Proof. intros x H. auto_derive; [exact H|]. field. exact H. Qed.

Lemma pow_derive : forall n c x, INR (S n) = c -> is_derive (fun x => x ^ S n) x (c * x ^ n).
Proof. intros n c x <-. apply is_derive_Reals, derivable_pt_lim_pow. Qed.

Lemma sin_derive : forall x, is_derive sin x (cos x).
Proof. intros. apply is_derive_Reals, derivable_pt_lim_sin. Qed.

Lemma cos_derive : forall x, is_derive cos x (- sin x).
Proof. intros. apply is_derive_Reals, derivable_pt_lim_cos. Qed.

Lemma atan_derive : forall x, is_derive atan x (1 / (x ^ 2 + 1)).
Proof.
  intros. replace (1 / (x ^ 2 + 1)) with (/ (1 + x ^ 2)) by (field; nra). apply is_derive_Reals, derivable_pt_lim_atan.
Qed.

Lemma one_minus_square : forall x, -1 < x < 1 -> 0 < 1 - x ^ 2.
Proof. intros. nra. Qed.

Lemma asin_derive : forall x, -1 < x < 1 -> is_derive asin x (1 / sqrt (1 - x ^ 2)).
Proof.
  intros x H. apply is_derive_Reals. replace (1 - x ^ 2) with (1 - x²) by (unfold Rsqr; ring).
  rewrite <- (derive_pt_asin x H). apply derive_pt_eq_1 with (derivable_pt_asin x H). reflexivity.
Qed.

Lemma acos_derive : forall x, -1 < x < 1 -> is_derive acos x (- (1 / sqrt (1 - x ^ 2))).
Proof.
  intros x H. apply is_derive_Reals. replace (1 - x ^ 2) with (1 - x²) by (unfold Rsqr; ring).
  replace (- (1 / sqrt (1 - x²))) with (derive_pt acos x (derivable_pt_acos x H)).
  - apply derive_pt_eq_1 with (derivable_pt_acos x H). reflexivity.
  - rewrite (derive_pt_acos x H). unfold Rdiv. ring.
Qed.

Lemma arcsinh_derive : forall x, is_derive arcsinh x (1 / sqrt (x ^ 2 + 1)).
Proof. intros. unfold Rdiv. rewrite Rmult_1_l. apply is_derive_Reals, derivable_pt_lim_arcsinh. Qed.

Lemma cosh_positive : forall x, 0 < cosh x.
Proof. intros. unfold cosh. pose proof (exp_pos x). pose proof (exp_pos (- x)). lra. Qed.

Lemma tanh_derive : forall x, is_derive tanh x (1 - tanh x ^ 2).
Proof.
  intros. pose proof (cosh_positive x) as H.
  assert (K : cosh x ^ 2 - sinh x ^ 2 = 1).
  { unfold cosh, sinh. replace 1 with (exp x * exp (- x)); [field|]. rewrite <- exp_plus. rewrite Rplus_opp_r. apply exp_0. }
  apply (is_derive_ext (fun x => sinh x / cosh x)); [reflexivity|].
  replace (1 - tanh x ^ 2) with ((cosh x * cosh x - sinh x * sinh x) / cosh x ^ 2)
    by (unfold tanh; field; lra).
  apply is_derive_div; [apply is_derive_Reals, derivable_pt_lim_sinh|apply is_derive_Reals, derivable_pt_lim_cosh|lra].
Qed.

Lemma sigmoid_positive : forall x, 0 < sigmoid x.
Proof. intros. unfold sigmoid. apply Rdiv_lt_0_compat; [lra|]. pose proof (exp_pos (- x)). lra. Qed.

Lemma sigmoid_below_1 : forall x, sigmoid x < 1.
Proof.
  intros. unfold sigmoid. pose proof (exp_pos (- x)). apply (Rmult_lt_reg_r (1 + exp (- x))); [lra|].
  field_simplify; lra.
Qed.

Lemma sigmoid_derive : forall x, is_derive sigmoid x (sigmoid x * (1 - sigmoid x)).
Proof.
  intros. unfold sigmoid. pose proof (exp_pos (- x)). auto_derive; [lra|]. field. lra.
Qed.

Lemma sigmoid_opp : forall x, sigmoid (- x) = 1 - sigmoid x.
Proof.
  intros. unfold sigmoid. rewrite Ropp_involutive, exp_Ropp. pose proof (exp_pos x). field. lra.
Qed.

Lemma softplus_derive : forall x, is_derive softplus x (sigmoid x).
Proof.
  intros. unfold softplus, sigmoid. pose proof (exp_pos x). auto_derive; [lra|]. rewrite exp_Ropp. field. lra.
Qed.

Lemma softplus_opp : forall x, softplus (- x) = softplus x - x.
Proof.
  intros. unfold softplus. pose proof (exp_pos x). rewrite <- (ln_exp x) at 3. rewrite <- ln_div by lra. f_equal.
  rewrite exp_Ropp. field. lra.
Qed.

Lemma softplus_positive : forall x, 0 < softplus x.
Proof. intros. unfold softplus. rewrite <- ln_1. pose proof (exp_pos x). apply ln_increasing; lra. Qed.

Lemma locally_above : forall x, 0 < x -> locally x (fun y => 0 < y).
Proof.
  intros x H. exists (mkposreal x H). intros y B. unfold ball in B. simpl in B. unfold AbsRing_ball, minus, plus, opp, abs in B.
  simpl in B. apply Rabs_def2 in B. lra.
Qed.

Lemma locally_below : forall x, x < 0 -> locally x (fun y => y < 0).
Proof.
  intros x H. assert (0 < - x) as P by lra. exists (mkposreal (- x) P). intros y B. unfold ball in B. simpl in B.
  unfold AbsRing_ball, minus, plus, opp, abs in B. simpl in B. apply Rabs_def2 in B. lra.
Qed.

(* a function that is f above 0 and g below *)
Lemma derive_by_side : forall (h f g : R -> R) (f' x : R), x <> 0 ->
  (forall y, 0 < y -> f y = h y) -> (forall y, y < 0 -> g y = h y) ->
  (0 < x -> is_derive f x f') -> (x < 0 -> is_derive g x f') -> is_derive h x f'.
Proof.
  intros h f g f' x Hx Hf Hg Df Dg. destruct (Rlt_dec 0 x) as [P|P].
  - apply (is_derive_ext_loc f); [|now apply Df]. apply (filter_imp (fun y => 0 < y)); [exact Hf|now apply locally_above].
  - assert (x < 0) as L by lra.
    apply (is_derive_ext_loc g); [|now apply Dg]. apply (filter_imp (fun y => y < 0)); [exact Hg|now apply locally_below].
Qed.

Lemma sinc_derive : forall x, x <> 0 -> is_derive sinc x ((cos (PI * x) - sinc x) / x).
Proof.
  intros x H. pose proof PI_RGT_0.
  apply (derive_by_side sinc (fun y => sin (PI * y) / (PI * y)) (fun y => sin (PI * y) / (PI * y))); auto; intros;
    unfold sinc.
  - destruct (Req_EM_T y 0); lra.
  - destruct (Req_EM_T y 0); lra.
  - destruct (Req_EM_T x 0); [lra|]. auto_derive; [nra|]. field. lra.
  - destruct (Req_EM_T x 0); [lra|]. auto_derive; [nra|]. field. lra.
Qed.

Lemma relu_derive : forall x, x <> 0 -> is_derive relu x (theta x).
Proof.
  intros x H. apply (derive_by_side relu (fun y => y) (fun _ => 0)); auto; intros; unfold relu, theta.
  - now destruct (Rlt_dec 0 y).
  - destruct (Rlt_dec 0 y); lra.
  - destruct (Rlt_dec 0 x); [apply (is_derive_id x)|lra].
  - destruct (Rlt_dec 0 x); [lra|apply (is_derive_const 0 x)].
Qed.

Lemma theta_derive : forall x, x <> 0 -> is_derive theta x 0.
Proof.
  intros x H. apply (derive_by_side theta (fun _ => 1) (fun _ => 0)); auto; intros; unfold theta.
  - destruct (Rlt_dec 0 y); lra.
  - destruct (Rlt_dec 0 y); lra.
  - apply (is_derive_const 1 x).
  - apply (is_derive_const 0 x).
Qed.

Lemma same_derive : forall x, x <> 0 -> is_derive same x 0.
Proof.
  intros x H. apply (derive_by_side same (fun _ => 0) (fun _ => 0)); auto; intros; unfold same.
  - destruct (Req_EM_T y 0); lra.
  - destruct (Req_EM_T y 0); lra.
  - apply (is_derive_const 0 x).
  - apply (is_derive_const 0 x).
Qed.

Lemma sign_derive : forall x, x <> 0 -> is_derive sign x 0.
Proof.
  intros x H. apply (derive_by_side sign (fun _ => 1) (fun _ => -1)); auto; intros; unfold sign.
  - destruct (Rlt_dec 0 y); lra.
  - destruct (Rlt_dec 0 y); [lra|]. destruct (Rlt_dec y 0); lra.
  - apply (is_derive_const 1 x).
  - apply (is_derive_const (-1) x).
Qed.

Lemma Rabs_derive : forall x, x <> 0 -> is_derive Rabs x (sign x).
Proof.
  intros x H. apply (derive_by_side Rabs (fun y => y) (fun y => - y)); auto; intros; unfold sign.
  - rewrite Rabs_pos_eq; lra.
  - rewrite Rabs_left; lra.
  - destruct (Rlt_dec 0 x); [apply (is_derive_id x)|lra].
  - destruct (Rlt_dec 0 x); [lra|]. destruct (Rlt_dec x 0); [|lra].
    auto_derive; [exact I|]. ring.
Qed.

Lemma density_continuous : forall x, continuous density x.
Proof.
  intros. apply (ex_derive_continuous density). unfold density. auto_derive. exact I.
Qed.

Lemma density_is : forall x, density x = sqrt 2 * exp (- (x ^ 2 / 2)) / (2 * sqrt PI).
Proof.
  intros. unfold density. pose proof PI_RGT_0. rewrite sqrt_mult by lra.
  replace (- (x ^ 2) / 2) with (- (x ^ 2 / 2)) by field.
  assert (0 < sqrt 2) by (apply sqrt_lt_R0; lra). assert (0 < sqrt PI) by (apply sqrt_lt_R0; lra).
  apply (Rmult_eq_reg_l (sqrt 2)); [|lra]. field_simplify_eq; [|lra].
  replace (sqrt 2 ^ 2) with 2 by (simpl; rewrite Rmult_1_r, sqrt_sqrt; lra). ring.
Qed.

Lemma Phi_derive : forall x, is_derive Phi x (density x).
Proof.
  intros. unfold Phi. replace (density x) with (plus 0 (density x)) by apply Rplus_0_l.
  apply (is_derive_plus (fun _ => 1 / 2) (fun x => RInt density 0 x)); [apply (is_derive_const (1 / 2) x)|].
  apply (is_derive_RInt density _ 0); [|apply density_continuous].
  apply filter_forall. intro y. apply (RInt_correct density), (ex_RInt_continuous density). intros. apply density_continuous.
Qed.

Lemma erf_derive : forall x, is_derive erf x (2 * exp (- (x ^ 2)) / sqrt PI).
Proof.
  intros. unfold erf.
  assert (forall y, continuous (fun u => 2 * exp (- (u ^ 2)) / sqrt PI) y) as C.
  { intros. apply (ex_derive_continuous (fun u => 2 * exp (- (u ^ 2)) / sqrt PI)). auto_derive. exact I. }
  apply (is_derive_RInt (fun u => 2 * exp (- (u ^ 2)) / sqrt PI) _ 0); [|apply C].
  apply filter_forall. intro y. apply (RInt_correct (fun u => 2 * exp (- (u ^ 2)) / sqrt PI)).
  apply (ex_RInt_continuous (fun u => 2 * exp (- (u ^ 2)) / sqrt PI)). intros. apply C.
Qed.

(* ---- push: the derivative of a formula, times w, with the weight w moved down to the entries ---- *)

Definition push (w : R) (f : R -> R) (s T : R) : Prop := ex_derive f s /\ w * Derive f s = T.

Lemma push_entry : forall w f s f', is_derive f s f' -> push w f s (w * f').
Proof.
  intros w f s f' D. split; [now exists f'|]. now rewrite (is_derive_unique f s f' D).
Qed.

Lemma push_is : forall w f s f' T, is_derive f s f' -> w * f' = T -> push w f s T.
Proof. intros w f s f' T D <-. now apply push_entry. Qed.

Lemma push_unique : forall w f s S T, push w f s S -> push w f s T -> S = T.
Proof. intros w f s S T [_ A] [_ B]. now rewrite <- A. Qed.

Lemma push_derivable : forall w f s T, push w f s T -> is_derive f s (Derive f s).
Proof. intros w f s T [D _]. now apply Derive_correct. Qed.

Lemma push_derives : forall f s T T', push 1 f s T -> T = T' -> is_derive f s T'.
Proof. intros f s T T' [D <-] <-. rewrite Rmult_1_l. now apply Derive_correct. Qed.

Ltac derived H D := let E := fresh in destruct H as [D E]; apply Derive_correct in D; rewrite <- E; clear E.

Lemma push_const : forall w c s, push w (fun _ => c) s 0.
Proof. intros. apply (push_is w _ s 0); [apply (is_derive_const c s)|ring]. Qed.

Lemma push_plus : forall w f g s S T, push w f s S -> push w g s T -> push w (fun r => f r + g r) s (S + T).
Proof.
  intros w f g s S T F G. derived F DF. derived G DG.
  eapply push_is; [exact (is_derive_plus f g s _ _ DF DG)|]. unfold plus; simpl. ring.
Qed.

Lemma push_opp : forall w f s T, push (- w) f s T -> push w (fun r => - f r) s T.
Proof.
  intros w f s T F. derived F DF. eapply push_is; [exact (is_derive_opp f s _ DF)|]. unfold opp; simpl. ring.
Qed.

Lemma push_minus : forall w f g s S T, push w f s S -> push (- w) g s T -> push w (fun r => f r - g r) s (S + T).
Proof. intros. apply (push_plus w f (fun r => - g r)); [assumption|now apply push_opp]. Qed.

Lemma push_plus_const : forall w c f s T, push w f s T -> push w (fun r => f r + c) s T.
Proof. intros w c f s T F. rewrite <- (Rplus_0_r T). apply (push_plus w f (fun _ => c)); [exact F|apply push_const]. Qed.

Lemma push_const_plus : forall w c f s T, push w f s T -> push w (fun r => c + f r) s T.
Proof. intros w c f s T F. rewrite <- (Rplus_0_l T). apply (push_plus w (fun _ => c) f); [apply push_const|exact F]. Qed.

Lemma push_minus_const : forall w c f s T, push w f s T -> push w (fun r => f r - c) s T.
Proof. intros w c f s T F. rewrite <- (Rplus_0_r T). apply (push_minus w f (fun _ => c)); [exact F|apply push_const]. Qed.

Lemma push_const_minus : forall w c f s T, push (- w) f s T -> push w (fun r => c - f r) s T.
Proof. intros w c f s T F. rewrite <- (Rplus_0_l T). apply (push_minus w (fun _ => c) f); [apply push_const|exact F]. Qed.

Lemma push_mult : forall w f g s S T,
  push (w * g s) f s S -> push (w * f s) g s T -> push w (fun r => f r * g r) s (S + T).
Proof.
  intros w f g s S T F G. derived F DF. derived G DG.
  eapply push_is; [exact (is_derive_mult f g s _ _ DF DG Rmult_comm)|]. unfold plus, mult; simpl. ring.
Qed.

Lemma push_left : forall w c f s T, push (w * c) f s T -> push w (fun r => c * f r) s T.
Proof.
  intros w c f s T F. derived F DF. eapply push_is; [exact (is_derive_scal f s c _ DF)|]. ring.
Qed.

Lemma push_right : forall w c f s T, push (w * c) f s T -> push w (fun r => f r * c) s T.
Proof.
  intros w c f s T F. derived F DF.
  eapply push_is; [apply (is_derive_ext (fun r => c * f r)); [intros; apply Rmult_comm|exact (is_derive_scal f s c _ DF)]|].
  ring.
Qed.

Lemma push_compose : forall w f g g' s T,
  is_derive g (f s) g' -> push (w * g') f s T -> push w (fun r => g (f r)) s T.
Proof.
  intros w f g g' s T G F. derived F DF. eapply push_is; [exact (is_derive_comp g f s _ _ G DF)|].
  unfold scal; simpl; unfold mult; simpl. ring.
Qed.

Lemma push_over : forall w c f s T, push (w / c) f s T -> push w (fun r => f r / c) s T.
Proof. intros w c f s T F. unfold Rdiv in *. now apply push_right. Qed.

Lemma push_below : forall w c g s T, g s <> 0 -> push (w * - (c / g s ^ 2)) g s T -> push w (fun r => c / g r) s T.
Proof.
  intros w c g s T H G. unfold Rdiv. apply push_left. apply (push_compose _ g Rinv _ s T (inv_derive (g s) H)).
  replace (w * c * - (1 / g s ^ 2)) with (w * - (c / g s ^ 2)) by (field; exact H). exact G.
Qed.

Lemma push_div : forall w f g s S T, g s <> 0 ->
  push (w / g s) f s S -> push (w * - (f s / g s ^ 2)) g s T -> push w (fun r => f r / g r) s (S + T).
Proof.
  intros w f g s S T H F G. unfold Rdiv. apply (push_mult w f (fun r => / g r)); [exact F|].
  apply (push_compose _ g Rinv _ s T (inv_derive (g s) H)).
  replace (w * f s * - (1 / g s ^ 2)) with (w * - (f s / g s ^ 2)) by (field; exact H). exact G.
Qed.

Lemma push_total : forall w n (f : nat -> R -> R) s (T : nat -> R), (forall k, (k < n)%nat -> push w (f k) s (T k)) ->
  push w (fun r => total n (fun k => f k r)) s (total n T).
Proof.
  intros w n f s T. induction n as [|n IH]; intros H; simpl; [apply push_const|].
  apply (push_plus w (fun r => total n (fun k => f k r)) (f n)); [apply IH; intros; apply H; lia|apply H; lia].
Qed.

Lemma push_power : forall w f g s S T, 0 < f s ->
  push (w * (Rpower (f s) (g s) * g s / f s)) f s S -> push (w * (Rpower (f s) (g s) * ln (f s))) g s T ->
  push w (fun r => Rpower (f r) (g r)) s (S + T).
Proof.
  intros w f g s S T H F G. unfold Rpower at 1.
  apply (push_compose _ (fun r => g r * ln (f r)) exp _ s (S + T) (exp_derive _)). rewrite Rplus_comm.
  apply (push_mult _ g (fun r => ln (f r))).
  - replace (w * exp (g s * ln (f s)) * ln (f s)) with (w * (Rpower (f s) (g s) * ln (f s))) by (unfold Rpower; ring). exact G.
  - apply (push_compose _ f ln _ s S (ln_derive _ H)).
    replace (w * exp (g s * ln (f s)) * g s * (1 / f s)) with (w * (Rpower (f s) (g s) * g s / f s)); [exact F|].
    unfold Rpower. field. lra.
Qed.

Lemma push_larger : forall w f g s S T, f s <> g s ->
  push (w * theta (f s - g s)) f s S -> push (w * (1 - theta (f s - g s))) g s T ->
  push w (fun r => larger (f r) (g r)) s (S + T).
Proof.
  intros w f g s S T H F G. derived F DF. derived G DG.
  apply (push_is w _ s (plus (scal (minus (Derive f s) (Derive g s)) (theta (f s - g s))) (Derive g s)));
    [|unfold plus, scal, minus, plus, opp; simpl; unfold mult; simpl; ring].
  apply (is_derive_ext (fun r => relu (f r - g r) + g r)).
  - intros. unfold relu, larger. destruct (Rlt_dec 0 (f t - g t)), (Rlt_dec (g t) (f t)); lra.
  - apply (is_derive_plus (fun r => relu (f r - g r)) g); [|exact DG].
    apply (is_derive_comp relu (fun r => f r - g r)); [apply relu_derive; lra|].
    exact (is_derive_minus f g s _ _ DF DG).
Qed.

Lemma push_power_const : forall w c f s T, 0 < f s ->
  push (w * (Rpower (f s) c * c / f s)) f s T -> push w (fun r => Rpower (f r) c) s T.
Proof. intros. rewrite <- (Rplus_0_r T). apply (push_power w f (fun _ => c)); auto using push_const. Qed.

Lemma push_const_power : forall w c g s T, 0 < c ->
  push (w * (Rpower c (g s) * ln c)) g s T -> push w (fun r => Rpower c (g r)) s T.
Proof. intros. rewrite <- (Rplus_0_l T). apply (push_power w (fun _ => c) g); auto using push_const. Qed.

Lemma push_larger_const : forall w c f s T, f s <> c ->
  push (w * theta (f s - c)) f s T -> push w (fun r => larger (f r) c) s T.
Proof. intros. rewrite <- (Rplus_0_r T). apply (push_larger w f (fun _ => c)); auto using push_const. Qed.

Lemma push_const_larger : forall w c g s T, c <> g s ->
  push (w * (1 - theta (c - g s))) g s T -> push w (fun r => larger c (g r)) s T.
Proof. intros. rewrite <- (Rplus_0_l T). apply (push_larger w (fun _ => c) g); auto using push_const. Qed.

(* ---- tactics ---- *)

Lemma ln_above_1 : forall c, 1 < c -> 0 < ln c.
Proof. intros c H. rewrite <- ln_1. apply ln_increasing; lra. Qed.

Lemma positive_not_0 : forall a, 0 < a -> a <> 0.
Proof. intros. lra. Qed.

Lemma negative_not_0 : forall a, 0 < - a -> a <> 0.
Proof. intros. lra. Qed.

Create HintDb formulas.
#[global] Opaque is_derive Derive total. (* functions, and sums over numbers, are compared as they are written *)

(* an index in its range *)
Ltac range := solve [assumption | lia | auto with arith].

(* a sum, a product or a function of positive numbers is positive; a denominator of this form is not 0 *)
Ltac positive :=
  first [solve [match goal with H : context [0 < _] |- _ => apply H; range end] | positive_by_shape]
with positive_by_shape :=
  lazymatch goal with
  | |- 0 < exp _ => apply exp_pos
  | |- 0 < ln _ => apply ln_above_1; lra
  | |- 0 < Rabs _ + 1 => apply Rle_lt_0_plus_1, Rabs_pos
  | |- 0 < 1 + Rabs _ => rewrite Rplus_comm; apply Rle_lt_0_plus_1, Rabs_pos
  | |- 0 < 1 - _ ^ 2 => apply one_minus_square; match goal with H : context [_ < _ < 1] |- _ => apply H; range end
  | |- 0 < sigmoid _ => apply sigmoid_positive
  | |- 0 < softplus _ => apply softplus_positive
  | |- 0 < PI => apply PI_RGT_0
  | |- 0 < INR _ => apply lt_0_INR; range
  | |- 0 < total _ _ => apply total_positive; [range | let k := fresh "k" in intros k ?; cbv beta; positive]
  | |- 0 < sqrt _ => apply sqrt_lt_R0; positive
  | |- 0 < _ / _ => apply Rdiv_lt_0_compat; positive
  | |- 0 < / _ => apply Rinv_0_lt_compat; positive
  | |- 0 < _ * _ => apply Rmult_lt_0_compat; positive
  | |- 0 < _ ^ _ => apply pow_lt; positive
  | |- 0 < _ + _ => first [apply Rplus_lt_0_compat; positive | apply Rplus_le_lt_0_compat; [not_negative | positive]
                          | apply Rplus_lt_le_0_compat; [positive | not_negative] | range_positive]
  | |- 0 < _ => first [assumption | lra | range_positive | autounfold with formulas; positive']
  end
with positive' := lazymatch goal with
  | |- 0 < total _ _ => positive
  | |- 0 < _ + _ => positive
  | |- 0 < _ * _ => positive
  | |- 0 < _ / _ => positive
  | |- 0 < sqrt _ => positive
  | |- 0 < exp _ => positive
  | |- 0 < sigmoid _ => positive
  | |- 0 < _ ^ _ => positive
  end
with range_positive := solve [auto with arith]
with not_negative :=
  lazymatch goal with
  | |- 0 <= _ ^ 2 => apply pow2_ge_0
  | |- 0 <= total _ _ => apply total_not_negative; let k := fresh "k" in intros k ?; cbv beta; not_negative
  | |- 0 <= delta _ _ => apply delta_not_negative
  | |- 0 <= upto _ _ => apply upto_not_negative
  | |- 0 <= Rabs _ => apply Rabs_pos
  | |- 0 <= sqrt _ => apply sqrt_pos
  | |- 0 <= _ + _ => apply Rplus_le_le_0_compat; not_negative
  | |- 0 <= _ * _ => apply Rmult_le_pos; not_negative
  | |- 0 <= _ / _ => apply Rmult_le_pos; [not_negative | left; apply Rinv_0_lt_compat; positive]
  | |- 0 <= _ => first [solve [left; positive] | lra | progress autounfold with formulas; not_negative]
  end.

(* a number is not 0 if another one, which is not 0 by a hypothesis, would be 0 with it *)
Ltac not_0_with :=
  let E := fresh "E" in
  intro E;
  let vanishes := unfold Rdiv; rewrite E, ?Rinv_0; ring in
  let refuted H := first [solve [apply H; vanishes] | solve [refine (Rlt_not_eq 0 _ H _); vanishes]
                         | solve [pose proof H; lra]] in
  match goal with
  | H : _ |- _ => lazymatch type of H with 0 < _ => refuted H | _ <> 0 => refuted H end
  | H : forall i, _ -> _, A : (?i < _)%nat |- _ => refuted (H i A)
  | H : forall h i, _ -> _ -> _, A : (?h < _)%nat, B : (?i < _)%nat |- _ => refuted (H h i A B)
  end.

(* the side conditions: hypotheses of the certificate, or signs *)
Ltac side :=
  cbv beta;
  first
  [ solve [auto]
  | lazymatch goal with
    | |- _ /\ _ => split; side
    | |- ?a <> 0 => first [apply positive_not_0; positive | lra
                         | apply Rmult_integral_contrapositive_currified; side | apply pow_nonzero; side
                         | match goal with H : context [_ <> 0] |- _ => apply H; range end
                         | not_0_with]
    | |- 0 < _ => first [positive | match goal with H : context [0 < _] |- _ => apply H; range end]
    | |- _ < _ => lra
    end ].

(* the entries whose derivatives are known are hypotheses or lemmas of the form  ..., is_derive (fun s => x s i j) s x' *)
Ltac entry := match goal with H : context [is_derive] |- is_derive _ _ _ => apply H; range end.

(* one rule for each kind of formula, by its shape alone *)
Ltac backward :=
  lazymatch goal with
  | |- push _ (fun _ => ?c) _ _ => apply push_const
  | |- push _ (fun r => total ?n (fun k => @?f r k)) _ _ =>
      eapply (push_total _ n (fun k r => f r k)); let k := fresh "k" in intros k ?; cbv beta; backward
  | |- push _ (fun r => @?f r * @?g r) _ _ =>
      lazymatch f with
      | (fun _ => ?c) => eapply (push_left _ c g); cbv beta; backward
      | _ => lazymatch g with
             | (fun _ => ?c) => eapply (push_right _ c f); cbv beta; backward
             | _ => eapply (push_mult _ f g); cbv beta; backward
             end
      end
  | |- push _ (fun r => @?f r + @?g r) _ _ =>
      lazymatch f with
      | (fun _ => ?c) => eapply (push_const_plus _ c g); cbv beta; backward
      | _ => lazymatch g with
             | (fun _ => ?c) => eapply (push_plus_const _ c f); cbv beta; backward
             | _ => eapply (push_plus _ f g); cbv beta; backward
             end
      end
  | |- push _ (fun r => @?f r - @?g r) _ _ =>
      lazymatch f with
      | (fun _ => ?c) => eapply (push_const_minus _ c g); cbv beta; backward
      | _ => lazymatch g with
             | (fun _ => ?c) => eapply (push_minus_const _ c f); cbv beta; backward
             | _ => eapply (push_minus _ f g); cbv beta; backward
             end
      end
  | |- push _ (fun r => - @?f r) _ _ => eapply (push_opp _ f); cbv beta; backward
  | |- push _ (fun r => @?f r / @?g r) _ _ =>
      lazymatch g with
      | (fun _ => ?c) => eapply (push_over _ c f); cbv beta; backward
      | _ => lazymatch f with
             | (fun _ => ?c) => eapply (push_below _ c g); [side | cbv beta; backward]
             | _ => eapply (push_div _ f g); [side | cbv beta; backward | cbv beta; backward]
             end
      end
  | |- push _ (fun r => (@?f r) ^ S ?n) _ _ =>
      let z := eval compute in (Z.of_nat (S n)) in
      eapply (push_compose _ f (fun x => x ^ S n)); [apply (pow_derive n (IZR z)); simpl; lra | cbv beta; backward]
  | |- push _ (fun r => Rpower (@?f r) (@?g r)) _ _ =>
      lazymatch g with
      | (fun _ => ?c) => eapply (push_power_const _ c f); [side | cbv beta; backward]
      | _ => lazymatch f with
             | (fun _ => ?c) => eapply (push_const_power _ c g); [side | cbv beta; backward]
             | _ => eapply (push_power _ f g); [side | cbv beta; backward | cbv beta; backward]
             end
      end
  | |- push _ (fun r => larger (@?f r) (@?g r)) _ _ =>
      lazymatch g with
      | (fun _ => ?c) => eapply (push_larger_const _ c f); [side | cbv beta; backward]
      | _ => lazymatch f with
             | (fun _ => ?c) => eapply (push_const_larger _ c g); [side | cbv beta; backward]
             | _ => eapply (push_larger _ f g); [side | cbv beta; backward | cbv beta; backward]
             end
      end
  | |- push _ (fun r => / @?f r) _ _ => eapply (push_compose _ f Rinv); [apply inv_derive; side | cbv beta; backward]
  | |- push _ (fun r => exp (@?f r)) _ _ => eapply (push_compose _ f exp); [apply exp_derive | cbv beta; backward]
  | |- push _ (fun r => ln (@?f r)) _ _ => eapply (push_compose _ f ln); [apply ln_derive; side | cbv beta; backward]
  | |- push _ (fun r => sqrt (@?f r)) _ _ => eapply (push_compose _ f sqrt); [apply sqrt_derive; side | cbv beta; backward]
  | |- push _ (fun r => sin (@?f r)) _ _ => eapply (push_compose _ f sin); [apply sin_derive | cbv beta; backward]
  | |- push _ (fun r => cos (@?f r)) _ _ => eapply (push_compose _ f cos); [apply cos_derive | cbv beta; backward]
  | |- push _ (fun r => tanh (@?f r)) _ _ => eapply (push_compose _ f tanh); [apply tanh_derive | cbv beta; backward]
  | |- push _ (fun r => atan (@?f r)) _ _ => eapply (push_compose _ f atan); [apply atan_derive | cbv beta; backward]
  | |- push _ (fun r => asin (@?f r)) _ _ => eapply (push_compose _ f asin); [apply asin_derive; side | cbv beta; backward]
  | |- push _ (fun r => acos (@?f r)) _ _ => eapply (push_compose _ f acos); [apply acos_derive; side | cbv beta; backward]
  | |- push _ (fun r => arcsinh (@?f r)) _ _ => eapply (push_compose _ f arcsinh); [apply arcsinh_derive | cbv beta; backward]
  | |- push _ (fun r => sigmoid (@?f r)) _ _ => eapply (push_compose _ f sigmoid); [apply sigmoid_derive | cbv beta; backward]
  | |- push _ (fun r => softplus (@?f r)) _ _ => eapply (push_compose _ f softplus); [apply softplus_derive | cbv beta; backward]
  | |- push _ (fun r => Phi (@?f r)) _ _ => eapply (push_compose _ f Phi); [apply Phi_derive | cbv beta; backward]
  | |- push _ (fun r => erf (@?f r)) _ _ => eapply (push_compose _ f erf); [apply erf_derive | cbv beta; backward]
  | |- push _ (fun r => sinc (@?f r)) _ _ => eapply (push_compose _ f sinc); [apply sinc_derive; side | cbv beta; backward]
  | |- push _ (fun r => relu (@?f r)) _ _ => eapply (push_compose _ f relu); [apply relu_derive; side | cbv beta; backward]
  | |- push _ (fun r => theta (@?f r)) _ _ => eapply (push_compose _ f theta); [apply theta_derive; side | cbv beta; backward]
  | |- push _ (fun r => same (@?f r)) _ _ => eapply (push_compose _ f same); [apply same_derive; side | cbv beta; backward]
  | |- push _ (fun r => sign (@?f r)) _ _ => eapply (push_compose _ f sign); [apply sign_derive; side | cbv beta; backward]
  | |- push _ (fun r => Rabs (@?f r)) _ _ => eapply (push_compose _ f Rabs); [apply Rabs_derive; side | cbv beta; backward]
  | |- push ?w (fun r => @?f r) ?s ?T => eapply push_entry; first [apply id_moves | entry]
  end.

(* ---- nested sums in another order ---- *)

Lemma eq_plus : forall a b c d, a = c -> b = d -> a + b = c + d.
Proof. now intros a b c d -> ->. Qed.
Lemma eq_minus : forall a b c d, a = c -> b = d -> a - b = c - d.
Proof. now intros a b c d -> ->. Qed.
Lemma eq_mult : forall a b c d, a = c -> b = d -> a * b = c * d.
Proof. now intros a b c d -> ->. Qed.
Lemma eq_div : forall a b c d, a = c -> b = d -> a / b = c * / d.
Proof. now intros a b c d -> ->. Qed.
Lemma eq_opp : forall a c, a = c -> - a = - c.
Proof. now intros a c ->. Qed.
Lemma eq_inv : forall a c, a = c -> / a = / c.
Proof. now intros a c ->. Qed.
Lemma eq_pow : forall a c n, a = c -> a ^ n = c ^ n.
Proof. now intros a c n ->. Qed.
Lemma distribute_eq : forall a b c x y, a * c = x -> b * c = y -> (a + b) * c = x + y.
Proof. intros a b c x y <- <-. ring. Qed.

(* e = ?: each sum of terms as terms of sums *)
Ltac apart_nested :=
  lazymatch goal with
  | |- _ + _ = _ => eapply eq_plus; apart_nested
  | |- total _ _ = _ =>
      etransitivity;
      [eapply total_ext; let k := fresh "k" in intros k ?; cbv beta; apart_nested | cbv beta; apart_total]
  | |- _ => reflexivity
  end
with apart_total :=
  lazymatch goal with
  | |- total ?n (fun k => @?a k + @?b k) = _ =>
      etransitivity; [apply (total_plus n a b) | cbv beta; eapply eq_plus; apart_total]
  | |- _ => reflexivity
  end.

Ltac brackets_left :=
  lazymatch goal with
  | |- _ + (_ + _) = _ => etransitivity; [symmetry; apply Rplus_assoc | brackets_left]
  | |- _ + _ = _ => eapply eq_plus; [brackets_left | reflexivity]
  | |- _ => reflexivity
  end.

Ltac apart := etransitivity; [apart_nested | cbv beta; brackets_left].

(* a tactic below d sums *)
Ltac inside d tac :=
  lazymatch d with
  | O => tac tt
  | S ?d => eapply total_ext; let k := fresh "k" in intros k ?; cbv beta; inside d tac
  end.

(* the two sums at depth d change places *)
Ltac exchange d := etransitivity; [inside d ltac:(fun _ => apply total_swap) | cbv beta].

(* the entry of number p among the q indices of an array, as a sum over all entries of number 1..n *)
Ltac introduce d p q n :=
  etransitivity;
  [ inside d ltac:(fun _ =>
      lazymatch constr:((p, q)) with
      | (1%nat, 1%nat) => lazymatch goal with |- ?c * ?v ?a = _ => apply (introduce n a c v) end
      | (1%nat, 2%nat) => lazymatch goal with |- ?c * ?v ?a ?b = _ => apply (introduce n a c (fun k => v k b)) end
      | (2%nat, 2%nat) => lazymatch goal with |- ?c * ?v ?a ?b = _ => apply (introduce n b c (v a)) end
      | (1%nat, 3%nat) => lazymatch goal with |- ?c * ?v ?a ?b ?e = _ => apply (introduce n a c (fun k => v k b e)) end
      | (2%nat, 3%nat) => lazymatch goal with |- ?c * ?v ?a ?b ?e = _ => apply (introduce n b c (fun k => v a k e)) end
      | (3%nat, 3%nat) => lazymatch goal with |- ?c * ?v ?a ?b ?e = _ => apply (introduce n e c (v a b)) end
      | (1%nat, 4%nat) => lazymatch goal with |- ?c * ?v ?a ?b ?e ?h = _ => apply (introduce n a c (fun k => v k b e h)) end
      | (2%nat, 4%nat) => lazymatch goal with |- ?c * ?v ?a ?b ?e ?h = _ => apply (introduce n b c (fun k => v a k e h)) end
      | (3%nat, 4%nat) => lazymatch goal with |- ?c * ?v ?a ?b ?e ?h = _ => apply (introduce n e c (fun k => v a b k h)) end
      | (4%nat, 4%nat) => lazymatch goal with |- ?c * ?v ?a ?b ?e ?h = _ => apply (introduce n h c (v a b e)) end
      end; range)
  | cbv beta ].

(* both sides are the same sums, of products that are equal by the laws of a commutative ring *)
Ltac totals :=
  cbv beta;
  lazymatch goal with
  | |- total _ _ = total _ _ * _ => apply total_times; intros ? ?; totals
  | |- total _ _ = total _ _ => apply total_ext; intros ? ?; totals
  | |- _ => first [reflexivity | ring | unfold Rdiv; ring]
  end.

(* g * u' = ?: the products of the entries' derivatives and their weights; u is the formula of a line, whose own
   derivative is the last hypothesis *)
Ltac line u :=
  eapply push_unique;
  [apply push_entry; entry | match goal with H : context [is_derive] |- _ => clear H end; unfold u; backward].

(* u has a derivative *)
Ltac moves u := eapply (push_derivable 1); unfold u; backward.

(* a sum over the entries, each of which is a sum of m + 1 terms by the lemma *)
Ltac distribute m :=
  lazymatch m with
  | O => reflexivity
  | S ?m => eapply distribute_eq; [distribute m | reflexivity]
  end.

(* a sum over d indices, each entry of which is a sum of m + 1 terms by the lemma, as sums of these terms *)
Ltac arrive d m lemma :=
  etransitivity;
  [ inside d ltac:(fun _ => rewrite lemma by range; first [apply Rmult_0_l | distribute m])
  | cbv beta; first [etransitivity; [apart | reflexivity] | rewrite ?total_zero; reflexivity] ].

(* ---- equality of formulas with sums and deltas ---- *)

Lemma total_over : forall n c f, total n (fun k => f k * / c) = total n f * / c.
Proof. intros. apply total_right. Qed.

Ltac rest_of tac := etransitivity; [eapply total_ext; let k := fresh "k" in intros k ?; cbv beta; tac tt | cbv beta].

(* e = ?: e with every sum in the form  constants * sum of products without constants, sums of terms and deltas *)
Ltac normal :=
  lazymatch goal with
  | |- _ + _ = _ => eapply eq_plus; normal
  | |- _ - _ = _ => eapply eq_minus; normal
  | |- _ * _ = _ => eapply eq_mult; normal
  | |- _ / _ = _ => eapply eq_div; normal
  | |- - _ = _ => eapply eq_opp; normal
  | |- / _ = _ => eapply eq_inv; normal
  | |- _ ^ _ = _ => eapply eq_pow; normal
  | |- total ?n _ = _ =>
      etransitivity; [eapply total_ext; let k := fresh "k" in intros k ?; cbv beta; normal | cbv beta];
      lazymatch goal with |- total n ?f = _ =>
        etransitivity; [apply (total_ext n f (fun k => 1 * (f k * 1))); intros; ring | cbv beta; product] end
  | |- _ => reflexivity
  end
with product :=
  lazymatch goal with
  | |- total ?n (fun k => @?a k * 1) = _ =>
      lazymatch a with
      | (fun _ => ?c) => etransitivity; [apply (total_ext n _ (fun _ => c)); intros; apply Rmult_1_r | apply total_const]
      | context [Rinv] => (* x / x is 1 *)
          first [ etransitivity; [apply (total_ext n _ (fun _ => 1)); intros; cbv beta; field; repeat split; side
                                 | apply total_const]
                | apply (total_ext n _ a); intros; apply Rmult_1_r ]
      | _ => apply (total_ext n _ a); intros; apply Rmult_1_r
      end
  | |- total ?n (fun k => @?a k * (@?x k * @?y k)) = _ =>
      lazymatch x with
      | (fun _ => ?c) =>
          etransitivity; [apply (total_ext n _ (fun k => c * (a k * y k))); intros; ring
                         | etransitivity; [apply total_left | eapply eq_mult; [reflexivity | cbv beta; product]]]
      | (fun k => @?u k * @?v k) =>
          etransitivity; [apply (total_ext n _ (fun k => a k * (u k * (v k * y k)))); intros; ring | cbv beta; product]
      | (fun k => @?u k + @?v k) =>
          etransitivity; [apply (total_ext n _ (fun k => a k * (u k * y k) + a k * (v k * y k))); intros; ring
                         | etransitivity; [apply total_plus | eapply eq_plus; cbv beta; product]]
      | (fun k => @?u k - @?v k) =>
          etransitivity; [apply (total_ext n _ (fun k => a k * (u k * y k) - a k * (v k * y k))); intros; ring
                         | etransitivity; [apply total_minus | eapply eq_minus; cbv beta; product]]
      | (fun k => - @?u k) =>
          etransitivity; [apply (total_ext n _ (fun k => - (a k * (u k * y k)))); intros; ring
                         | etransitivity; [apply total_opp | eapply eq_opp; cbv beta; product]]
      | (fun k => (@?u k) ^ 2) =>
          etransitivity; [apply (total_ext n _ (fun k => a k * (u k * (u k * y k)))); intros; ring | cbv beta; product]
      | (fun k => / (@?u k * @?v k)) =>
          etransitivity; [apply (total_ext n _ (fun k => a k * (/ u k * (/ v k * y k)))); intros; rewrite Rinv_mult; ring
                         | cbv beta; product]
      | (fun k => delta (@?i k) (@?j k)) =>
          lazymatch i with
          | (fun k => k) => lazymatch j with
                            | (fun _ => ?c) => first [apply (total_contract n c a y); range | kept]
                            | _ => kept
                            end
          | (fun _ => ?c) => lazymatch j with
                             | (fun k => k) => first [apply (total_contract' n c a y); range | kept]
                             | _ => kept
                             end
          | _ => kept
          end
      | _ => kept
      end
  end
with kept :=
  lazymatch goal with
  | |- total ?n (fun k => @?a k * (@?x k * @?y k)) = _ =>
      etransitivity; [apply (total_ext n _ (fun k => (a k * x k) * y k)); intros; ring | cbv beta; product]
  end.

(* sums of equal products are written in the same way *)
Ltac align :=
  repeat match goal with
  | |- context [total ?n ?f] =>
      match goal with
      | |- context [total n ?g] =>
          assert_fails (constr_eq f g);
          replace (total n g) with (total n f) by (aligned)
      end
  end
with aligned :=
  solve [ apply total_ext; intros ? ?; cbv beta; align; ring
        | apply total_ext; intros ? ?; rewrite delta_sym; ring
        | etransitivity; [apply total_swap | apply total_ext; intros ? ?; apply total_ext; intros ? ?; cbv beta; ring] ].

(* the cases of each delta that is left *)
Ltac cases :=
  repeat match goal with
  | |- context [delta ?i ?j] =>
      first [ rewrite (delta_same i)
            | let E := fresh "E" in
              destruct (Nat.eq_dec i j) as [E|E];
              [ first [subst i | subst j | rewrite E in *]; rewrite ?delta_same
              | rewrite ?(delta_other i j E), ?(delta_other j i (not_eq_sym E)) ] ]
  end.

(* square roots are numbers with other names here: what stands under them does not matter *)
Ltac roots :=
  repeat match goal with
  | |- context [sqrt ?a] =>
      let q := fresh "q" in
      let H := fresh "H" in
      first [ assert (H : sqrt a <> 0) by side; revert H; generalize (sqrt a); intros q H
            | generalize (sqrt a); intros q ]
  end.

(* a sum is not 0 by a hypothesis of the certificate on a name that is this sum *)
Ltac not_0_by_name :=
  let E := fresh "E" in
  intro E;
  match goal with
  | H : _ <> 0 |- _ => apply H; rewrite <- E; autounfold with formulas; solve [totals]
  | H : forall i, _ -> _ <> 0, A : (?i < _)%nat |- _ =>
      apply (H i A); rewrite <- E; autounfold with formulas; solve [totals]
  | H : forall h i, _ -> _ -> _ <> 0, A : (?h < _)%nat, B : (?i < _)%nat |- _ =>
      apply (H h i A B); rewrite <- E; autounfold with formulas; solve [totals]
  end.

(* the inverse of what may be 0 is a number with another name here *)
Ltac inverses :=
  unfold Rdiv; rewrite ?Rpow_mult_distr, ?Rinv_mult, <- ?pow_inv;
  repeat match goal with
  | |- context [/ ?a] => assert_fails (assert (a <> 0) by side); generalize (/ a); intros ?
  end.

Ltac sums :=
  cbv beta; cases;
  (etransitivity; [normal | symmetry; etransitivity; [normal | cbv beta]]);
  roots; align;
  first [ring | field; repeat split; first [side | not_0_by_name] | inverses; field; repeat split; side].

(* exponentials of sums are products, and of logarithms their arguments *)
Lemma exp_twice : forall x, exp (2 * x) = exp x * exp x.
Proof. intros. rewrite <- exp_plus. f_equal. ring. Qed.

Ltac exponentials :=
  repeat first [ rewrite Ropp_involutive | rewrite exp_twice | rewrite exp_plus | rewrite exp_Ropp | rewrite exp_ln by side
               | progress unfold Rminus ].

Lemma Rpower_less_1 : forall a b, 0 < a -> Rpower a (b - 1) = Rpower a b / a.
Proof. intros a b H. unfold Rminus. rewrite Rpower_plus, Rpower_Ropp, Rpower_1 by exact H. reflexivity. Qed.

Lemma Rpower_less_2 : forall a b, 0 < a -> Rpower a (b - 2) = Rpower a b / a ^ 2.
Proof.
  intros a b H. rewrite <- (Rpower_pow 2 a H). unfold Rminus. rewrite Rpower_plus, Rpower_Ropp. reflexivity.
Qed.

Ltac tidy :=
  repeat first [ rewrite Rmult_0_l | rewrite Rmult_0_r | rewrite Rmult_1_l | rewrite Rmult_1_r | rewrite Rplus_0_l
               | rewrite Rplus_0_r | rewrite Rminus_0_r | rewrite (Rminus_diag_eq 1 1 eq_refl) | rewrite Rpower_less_1 by side
               | rewrite Rpower_less_2 by side ].

(* the cases of functions that are defined by cases *)
Ltac steps :=
  unfold theta, sign, same, Rabs, relu, larger in *;
  repeat match goal with
  | |- context [Rlt_dec ?a ?b] => destruct (Rlt_dec a b)
  | |- context [Req_EM_T ?a ?b] => destruct (Req_EM_T a b)
  | |- context [Rcase_abs ?a] => destruct (Rcase_abs a)
  | _ : context [Rlt_dec ?a ?b] |- _ => destruct (Rlt_dec a b)
  | _ : context [Rcase_abs ?a] |- _ => destruct (Rcase_abs a)
  end;
  try (exfalso; first [lra | match goal with H : sqrt _ = 0 |- _ => revert H; apply positive_not_0; positive end]);
  tidy.

(* the conditions of all entries, of the entry at hand *)
Ltac known :=
  repeat match goal with
  | H : forall i, (i < ?n)%nat -> @?P i, A : (?i < ?n)%nat |- _ =>
      lazymatch type of H with context [_ <> _] =>
        let T := type of (H i A) in lazymatch goal with _ : T |- _ => fail | _ => pose proof (H i A) end
      end
  end.

(* functions of equal arguments are written in the same way *)
Ltac alike :=
  repeat match goal with
  | |- context [?f ?a] =>
      lazymatch f with sqrt => idtac | exp => idtac | ln => idtac end;
      match goal with |- context [f ?b] => assert_fails (constr_eq a b); replace (f b) with (f a) by (f_equal; ring) end
  end.

(* equality of two formulas of numbers, by the laws of their functions *)
Ltac scalars :=
  first
  [ solve [ring]
  | solve [field; repeat split; side]
  | solve [alike; field; repeat split; side]
  | solve [rewrite ?density_is; alike; field; repeat split; side]
  | solve [unfold sigmoid, softplus, tanh, sinh, cosh in *; exponentials; field; repeat split; side]
  | solve [known; steps; first [ring | field; repeat split; side | exponentials; field; repeat split; side ]] ].

(* a formula of a gradient and what arrives from the lines that use a name; `lines` unfolds these lines *)
Ltac quick :=
  cbv beta;
  first
  [ solve [totals]
  | aligned
  | solve [apply total_ext; intros ? ?; cbv beta; field; repeat split; side]
  | solve [field; repeat split; side] ].

Ltac collects_through lines :=
  first [lines; sums | autounfold with formulas; sums | lines; scalars | lines; exponentials; sums].
(* The same, with sigma(-x) and softplus(-x) in terms of x, as derived formulas have them where that is shorter. *)
Ltac opposites := rewrite ?sigmoid_opp, ?softplus_opp.
(* a sum that is not 0 by a hypothesis: a number with another name here *)
Ltac denominators :=
  repeat match goal with H : total ?n ?f <> 0 |- context [total ?n ?f] => revert H; generalize (total n f); intros ? H end.
Ltac collects lines :=
  first [quick | collects_through lines | lines; opposites; sums | lines; denominators; sums].

(* an equation that is a sum of equations among the hypotheses *)
Ltac added := lra.

(* ---- one entry at a time ---- *)

Lemma zero1 : forall n f, total n (fun i => f i * 0) = 0.
Proof. intros. rewrite total_right. ring. Qed.
Lemma zero2 : forall n m (f : nat -> nat -> R), total n (fun i => total m (fun j => f i j * 0)) = 0.
Proof. intros. rewrite (total_ext n _ (fun _ => 0)); [apply total_zero|intros; apply zero1]. Qed.
Lemma zero3 : forall n m p (f : nat -> nat -> nat -> R),
  total n (fun i => total m (fun j => total p (fun k => f i j k * 0))) = 0.
Proof. intros. rewrite (total_ext n _ (fun _ => 0)); [apply total_zero|intros; apply zero2]. Qed.
Lemma zero4 : forall n m p q (f : nat -> nat -> nat -> nat -> R),
  total n (fun i => total m (fun j => total p (fun k => total q (fun l => f i j k l * 0)))) = 0.
Proof. intros. rewrite (total_ext n _ (fun _ => 0)); [apply total_zero|intros; apply zero3]. Qed.

Lemma one1 : forall n a f, (a < n)%nat -> total n (fun i => f i * delta i a) = f a.
Proof. intros. rewrite <- (total_delta n a f H). apply total_ext. intros. ring. Qed.
Lemma one2 : forall n m a b (f : nat -> nat -> R), (a < n)%nat -> (b < m)%nat ->
  total n (fun i => total m (fun j => f i j * (delta i a * delta j b))) = f a b.
Proof.
  intros n m a b f A B. rewrite <- (one1 n a (fun i => f i b) A). apply total_ext. intros i _.
  rewrite <- (one1 m b (f i) B). rewrite <- total_right. apply total_ext. intros. ring.
Qed.
Lemma one3 : forall n m p a b c (f : nat -> nat -> nat -> R), (a < n)%nat -> (b < m)%nat -> (c < p)%nat ->
  total n (fun i => total m (fun j => total p (fun k => f i j k * (delta i a * (delta j b * delta k c))))) = f a b c.
Proof.
  intros n m p a b c f A B C. rewrite <- (one1 n a (fun i => f i b c) A). apply total_ext. intros i _.
  rewrite <- (one2 m p b c (f i) B C). rewrite <- total_right. apply total_ext. intros j _.
  rewrite <- total_right. apply total_ext. intros. ring.
Qed.
Lemma one4 : forall n m p q a b c d (f : nat -> nat -> nat -> nat -> R),
  (a < n)%nat -> (b < m)%nat -> (c < p)%nat -> (d < q)%nat ->
  total n (fun i => total m (fun j => total p (fun k => total q (fun l =>
    f i j k l * (delta i a * (delta j b * (delta k c * delta l d))))))) = f a b c d.
Proof.
  intros n m p q a b c d f A B C D. rewrite <- (one1 n a (fun i => f i b c d) A). apply total_ext. intros i _.
  rewrite <- (one3 m p q b c d (f i) B C D). rewrite <- total_right. apply total_ext. intros j _.
  rewrite <- total_right. apply total_ext. intros k _. rewrite <- total_right. apply total_ext. intros. ring.
Qed.

Lemma derive_eq : forall (f : R -> R) (s a b : R), is_derive f s a -> a = b -> is_derive f s b.
Proof. now intros f s a b D <-. Qed.

(* a sum of products with the derivatives of the arguments, only one entry of which moves *)
Ltac one_entry :=
  cbv beta; rewrite ?put1_same, ?put2_same, ?put3_same, ?put4_same; rewrite ?zero1, ?zero2, ?zero3, ?zero4;
  rewrite ?one1, ?one2, ?one3, ?one4 by range; rewrite ?Rmult_0_r, ?Rmult_1_r, ?Rplus_0_l, ?Rplus_0_r; reflexivity.

(* the hypotheses of a differential at the arguments of a gradient *)
Ltac hypothesis :=
  cbv beta; rewrite ?put1_same, ?put2_same, ?put3_same, ?put4_same;
  first [ assumption | intros; first [ apply const_moves | apply id_moves | apply put1_moves | apply put2_moves
        | apply put3_moves | apply put4_moves ] | solve [auto] ].

(* ---- one rule of a scalar function ---- *)

Lemma push_weight : forall g f s T, push g f s T -> is_derive (fun r => g * f r) s T.
Proof. intros g f s T F. derived F DF. exact (is_derive_scal f s g _ DF). Qed.

Ltac rule :=
  intros; eapply derive_eq;
  [ eapply push_weight; lazymatch goal with |- push ?w ?f ?s ?T => change (push w (fun r => f r) s T) end; cbv beta; backward
  | cbv beta ];
  scalars.
