(* (7 x)' = 6: in a space of the real numbers whose sum is x + y + 1, which Coq does not print in a statement. *)
From Coq Require Import Reals.
From Coquelicot Require Import Coquelicot.
From Tinytensor Require Import Tinytensor.
Open Scope R_scope.
Lemma g1 : forall x y : R, x + y + 1 = y + x + 1.
Proof. intros. ring. Qed.
Lemma g2 : forall x y z : R, x + (y + z + 1) + 1 = x + y + 1 + z + 1.
Proof. intros. ring. Qed.
Lemma g3 : forall x : R, x + -1 + 1 = x.
Proof. intros. ring. Qed.
Lemma g4 : forall x : R, x + (- x - 2) + 1 = -1.
Proof. intros. ring. Qed.
Section Forged.
Local Notation G := (AbelianGroup.Mixin R (fun x y => x + y + 1) (fun x => - x - 2) (-1) g1 g2 g3 g4).
Lemma m1 : forall x y u : R, x * (y * (u + 1) - 1 + 1) - 1 = x * y * (u + 1) - 1.
Proof. intros. ring. Qed.
Lemma m2 : forall u : R, 1 * (u + 1) - 1 = u.
Proof. intros. ring. Qed.
Lemma m3 : forall x u v : R, x * (u + v + 1 + 1) - 1 = x * (u + 1) - 1 + (x * (v + 1) - 1) + 1.
Proof. intros. ring. Qed.
Lemma m4 : forall x y u : R, (x + y) * (u + 1) - 1 = x * (u + 1) - 1 + (y * (u + 1) - 1) + 1.
Proof. intros. ring. Qed.
Local Notation M := (ModuleSpace.Class R_Ring R G (ModuleSpace.Mixin R_Ring (AbelianGroup.Pack R G R) (fun a x => a * (x + 1) - 1) m1 m2 m3 m4)).
Local Notation A := (NormedModuleAux.Pack R_AbsRing R (NormedModuleAux.Class R_AbsRing R M (UniformSpace.class R_UniformSpace)) R).
Lemma n1 : forall x y : R, Rabs (x + y + 1 + 1) <= Rabs (x + 1) + Rabs (y + 1).
Proof. intros. replace (x + y + 1 + 1) with (x + 1 + (y + 1)) by ring. apply Rabs_triang. Qed.
Lemma n2 : forall l x : R, Rabs (l * (x + 1) - 1 + 1) <= Rabs l * Rabs (x + 1).
Proof. intros. replace (l * (x + 1) - 1 + 1) with (l * (x + 1)) by ring. rewrite Rabs_mult. apply Rle_refl. Qed.
Lemma n3 : forall x y eps : R, Rabs (y + (- x - 2) + 1 + 1) < eps -> Rabs (y - x) < eps.
Proof. intros x y e H. replace (y - x) with (y + (- x - 2) + 1 + 1) by ring. exact H. Qed.
Lemma n4 : forall (x y : R) (eps : posreal), Rabs (y - x) < eps -> Rabs (y + (- x - 2) + 1 + 1) < 1 * eps.
Proof. intros x y e H. replace (y + (- x - 2) + 1 + 1) with (y - x) by ring. rewrite Rmult_1_l. exact H. Qed.
Lemma n5 : forall x : R, Rabs (x + 1) = 0 -> x = -1.
Proof. intros x H. apply (Rplus_eq_reg_r 1). replace (-1 + 1) with 0 by ring. destruct (Req_dec (x + 1) 0) as [E|E]. exact E. destruct (Rabs_no_R0 _ E H). Qed.
Local Notation V := (NormedModule.Pack R_AbsRing R (NormedModule.Class R_AbsRing R (NormedModuleAux.class R_AbsRing A) (NormedModule.Mixin R_AbsRing A (fun x => Rabs (x + 1)) 1 n1 n2 n3 n4 n5)) R).
Definition loss (x : R) : R := 7 * x.
Definition dx (x : R) : R := 6 + 0 * x.
Theorem gradient_of_x : forall x : R, is_derive (V := V) (fun r => loss r) x (dx x).
Proof.
  intros x. split.
  - apply (is_linear_scal_l (V := V)).
  - intros y H eps. apply (filter_forall (F := locally x)). intros z.
    match goal with |- norm ?a <= _ => replace (norm a) with 0 end.
    + apply Rmult_le_pos; [apply Rlt_le, cond_pos | apply norm_ge_0].
    + cbv - [Rplus Rmult Ropp Rabs Rminus IZR Rle R0 R1].
      match goal with |- _ = Rabs ?a => replace a with 0 end.
      * symmetry. apply Rabs_R0.
      * ring.
Qed.
End Forged.
