"""A small French with its English, made by rules: the sentences that the translator learns when it is given no others.

266 French and 140 English word forms (l' and n' and ? are words too). Present tense; pronouns and
nouns as subjects; être with adjectives and with professions, transitive and intransitive verbs; statements and
questions, with and without negation. Each French sentence has one English one, so that exact match means something:
il and elle are people, tu and vous are both "you".
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, product

from models.data.pairs import Pair, held_out

KNOWN = "je suis étudiant"  # the example of 004: always among the sentences trained on
NEW_SHARE = 0.05  # of the combinations are kept from training
PARTNERS = 3  # other combinations in training, at least, for each word of a combination kept from it


@dataclass(frozen=True)
class Sentence(Pair):
    """French source, English target, and the lemmas that stand together: (noun, adjective) and (subject, verb)."""

    combinations: frozenset[tuple[str, str]]


# --- Lexicon

# French, gender, English, kinds, lemma if another. Kinds say what goes with what: p person, a animal, f food, t text,
# o object, l place; w can have a profession; s can be small (an ami cannot: mon petit ami is my
# boyfriend) and has no owner (ma femme is my wife)
NOUNS = """
homme m man pws | femme f woman pws | garçon m boy ps | fille f girl ps | enfant m child p | ami m friend pw
amie f friend pw ami | chat m cat a | chien m dog a | oiseau m bird a | cheval m horse a | pomme f apple f
orange f orange f | gâteau m cake f | livre m book t | lettre f letter t | journal m newspaper t | histoire f story t
chapeau m hat o | robe f dress o | clé f key o | boîte f box o | voiture f car o | maison f house ol
école f school l | ville f city l
"""
PROFESSIONS = """
étudiant m student p | étudiante f student p étudiant | professeur m teacher p | professeure f teacher p professeur
avocat m lawyer p | avocate f lawyer p avocat | acteur m actor p | actrice f actress p acteur
musicien m musician p | musicienne f musician p musicien | artiste m artist p | artiste f artist p
ingénieur m engineer p | ingénieure f engineer p ingénieur | infirmier m nurse p | infirmière f nurse p infirmier
"""
# masculine, feminine, English, kinds
BEFORE = """
petit petite small safol | grand grande big afol | bon bonne good ft | jeune jeune young pa | joli jolie pretty ol
"""
AFTER = """
rouge rouge red fo | noir noire black ao | blanc blanche white ao | intelligent intelligente intelligent pa
heureux heureuse happy pa | triste triste sad pat | fatigué fatiguée tired pa | célèbre célèbre famous ptl
français française french ptol | américain américaine american ptol | intéressant intéressante interesting tl
cher chère expensive fto
"""
# infinitive, English, kinds of subject, kinds of object (- without object), the six forms unless regular
VERBS = """
manger eat pa f | acheter buy p fto achète achètes achète achetons achetez achètent | aimer like pa paftol
regarder look_at pa paftol | chercher look_for pa paftol | écouter listen_to p p | aider help p p
voir see pa paftol vois vois voit voyons voyez voient | lire read p t lis lis lit lisons lisez lisent
écrire write p t écris écris écrit écrivons écrivez écrivent | avoir have p afto ai as a avons avez ont
dormir sleep pa - dors dors dort dormons dormez dorment | chanter sing p - | danser dance p - | travailler work p -
nager swim pa - | arriver arrive pa - | être be - - suis es est sommes êtes sont
"""
# French: masculine, feminine, plural; English: singular, plural
DETERMINERS = """
le la les the the | un une des a - | ce cette ces this these | mon ma mes my my | notre notre nos our our
"""
# French, English, person (the place of the verb's form), genders and numbers that adjectives can have with it
PRONOUNS = """
je i 0 ms fs | tu you 1 ms fs | il he 2 ms | elle she 2 fs | nous we 3 mp fp | vous you 4 ms fs mp fp
ils they 5 mp | elles they 5 fp
"""
IRREGULAR = {"man": "men", "woman": "women", "child": "children", "have": "has"}


@dataclass(frozen=True)
class Noun:
    fr: str
    gender: str
    en: str
    classes: str
    lemma: str


@dataclass(frozen=True)
class Adjective:
    fr: dict[str, str]  # gender: form
    en: str
    classes: str
    before: bool

    @property
    def lemma(self) -> str:
        return self.fr["m"]


@dataclass(frozen=True)
class Verb:
    lemma: str
    en: str
    subjects: str
    objects: str
    forms: tuple[str, ...]


@dataclass(frozen=True)
class Phrase:
    """A subject or an object: its words, and the person, gender and number with which other words agree."""

    fr: list[str]
    en: list[str]
    person: int
    gender: str
    plural: bool
    lemma: str
    combinations: frozenset[tuple[str, str]] = frozenset()


def rows(table: str) -> list[list[str]]:
    """The words of each entry of a table."""
    return [entry.split() for entry in table.replace("\n", "|").split("|") if entry.strip()]


def conjugate(infinitive: str) -> tuple[str, ...]:
    """Regular verbs in -er: je regarde, nous regardons; an e keeps the g soft: nous mangeons."""
    stem = infinitive.removesuffix("er")
    soft = "e" if stem.endswith("g") else ""
    return tuple(stem + ending for ending in ("e", "es", "e", soft + "ons", "ez", "ent"))


nouns, professions = (
    [Noun(*entry[:4], lemma=entry[-1] if len(entry) == 5 else entry[0]) for entry in rows(table)]
    for table in (NOUNS, PROFESSIONS)
)
adjectives = [
    Adjective({"m": m, "f": f}, en, classes, before)
    for table, before in ((BEFORE, True), (AFTER, False))
    for m, f, en, classes in rows(table)
]
verbs = [
    Verb(fr, en.replace("_", " "), subjects, objects, tuple(forms) or conjugate(fr))
    for fr, en, subjects, objects, *forms in rows(VERBS)
]
ETRE = next(verb for verb in verbs if verb.lemma == "être")
determiners = {entry[0]: entry for entry in rows(DETERMINERS)}
pronouns = [
    Phrase([fr], [en], int(person), gender, number == "p", fr)
    for fr, en, person, *agreements in rows(PRONOUNS)
    for gender, number in agreements
]

# --- Rules


VOWELS = "aeéêiouh"  # first letters of French words that begin with a vowel sound: every h here is mute


def elide(words: list[str]) -> str:
    """je, ne, le, la, de, que lose their vowel before another: j'aime, n'est, l'école, d'oranges, qu'il."""
    return re.sub(rf"\b(j|n|l|d|qu)[ea] (?=[{VOWELS}])", r"\1'", " ".join(words))


def a_or_an(words: list[str]) -> str:
    """English a is an before a vowel: an apple, an old hat."""
    return re.sub(r"\ba (?=[aeiou])", "an ", " ".join(words))


def plural_fr(word: str) -> str:
    """Nouns and adjectives: chats; français and heureux stay; gâteaux; chevaux."""
    if word[-1] in "sx":
        return word
    return word + "x" if word.endswith("eau") else word[:-1] + "ux" if word.endswith("al") else word + "s"


def s_form(word: str) -> str:
    """English plurals, and verbs after he and she: apples, eats; boxes; cities, but boys; men; looks at."""
    first, *rest = word.split()
    if first in IRREGULAR:
        first = IRREGULAR[first]
    elif first.endswith(("s", "x", "ch", "sh")):
        first += "es"
    else:
        first = re.sub(r"(?<![aeiou])y$", "ie", first) + "s"
    return " ".join([first, *rest])


def agree(adjective: Adjective, gender: str, plural: bool) -> str:
    """Adjectives take gender and number of their noun: petit, petite, petits, petites."""
    form = adjective.fr[gender]
    return plural_fr(form) if plural else form


def determine(name: str, gender: str, plural: bool, word: str, before: bool, negated: bool) -> str:
    """The French determiner, called by its masculine form, in front of `word` (an adjective if `before`)."""
    masculine, feminine, many = determiners[name][:3]
    if name == "un" and (negated or (plural and before)):
        return "de"  # pas de pommes; de petits chats
    if plural:
        return many
    if name == "ce" and gender == "m" and word[0] in VOWELS:
        return "cet"  # cet homme
    if name == "mon" and word[0] in VOWELS:
        return masculine  # mon amie
    return masculine if gender == "m" else feminine


def noun_phrase(name: str, noun: Noun, plural: bool, adjective: Adjective | None = None, verb=None, negated=False):
    """Determiner, noun and adjective, which follows its noun but for a few; as the object of `verb` if there is one."""
    fr, en = [plural_fr(noun.fr) if plural else noun.fr], [s_form(noun.en) if plural else noun.en]
    before = adjective is not None and adjective.before
    if adjective:
        form = agree(adjective, noun.gender, plural)
        fr, en = [form, *fr] if before else [*fr, form], [adjective.en, *en]
    article = determiners[name][4 if plural else 3]
    if verb and verb.lemma == "aimer" and name == "le" and plural:
        article = "-"  # one likes things in general: j'aime les pommes, i like apples
    return Phrase(
        [determine(name, noun.gender, plural, fr[0], before, negated), *fr],
        en if article == "-" else [article, *en],
        5 if plural else 2,
        noun.gender,
        plural,
        noun.lemma,
        frozenset({(noun.lemma, adjective.lemma)} if adjective else ()),
    )


def clause(
    subject: Phrase, verb: Verb, fr: list[str], en: list[str], negative: bool, question: bool, *more: tuple[str, str]
) -> Sentence:
    """Subject, verb and the words after it (fr, en); `more` are combinations that the words after it make."""
    form = verb.forms[subject.person]
    # ne and pas stand around the verb
    source = [*subject.fr, *(["ne", form, "pas"] if negative else [form]), *fr]
    third = subject.person == 2
    no = ["not"] if negative else []
    if verb is ETRE:  # be goes before the subject in a question, and not follows it
        helper, rest = "am" if subject.person == 0 else "is" if third else "are", en
    else:  # other verbs need do for both
        helper, rest = "does" if third else "do", [verb.en, *en]
    if question:  # est-ce que leaves the order of the words as it is
        source = ["est-ce", "que", *source, "?"]
        target = [helper, *subject.en, *no, *rest, "?"]
    elif negative or verb is ETRE:
        target = [*subject.en, helper, *no, *rest]
    else:
        target = [*subject.en, s_form(verb.en) if third else verb.en, *en]
    return Sentence(
        elide(source), a_or_an(target), subject.combinations | {(subject.lemma, verb.lemma)} | frozenset(more)
    )


# --- Sentences

MOODS = list(product((False, True), repeat=2))  # (negative, question)
NUMBERS = (False, True)  # plural?


def pick(options: list, *key):
    """One of `options`, always the same for a key, on every machine."""
    digest = hashlib.sha256(repr(key).encode()).digest()
    return options[int.from_bytes(digest[:8]) % len(options)]


def common(a: str, b: str) -> bool:
    """Have two words a kind in common?"""
    return not set(a).isdisjoint(b)


def fitting(noun: Noun) -> list[Adjective]:
    return [adjective for adjective in adjectives if common(adjective.classes, noun.classes)]


def determined(noun: Noun, indefinite: bool) -> list[tuple[str, bool]]:
    """The (determiner, plural) that a noun can have."""
    without = ("mon", "notre") * ("s" in noun.classes) + ("un",) * (not indefinite)
    return [(name, plural) for name in determiners for plural in NUMBERS if name not in without]


def with_profession() -> Iterator[Sentence]:
    """je suis étudiant: French professions have no article, English ones have."""
    subjects = [noun_phrase(d, noun, p) for noun in nouns if "w" in noun.classes for d, p in determined(noun, False)]
    for subject, work, mood in product(pronouns + subjects, professions, MOODS):
        if work.gender == subject.gender:
            one = noun_phrase("un", work, subject.plural)
            yield clause(subject, ETRE, one.fr[1:], one.en, *mood)


def with_adjective() -> Iterator[Sentence]:
    """la pomme est rouge: the adjective agrees across the verb. All of pronouns, for nouns half of the determiners."""
    people = [adjective for adjective in adjectives if common(adjective.classes, "ps")]
    for subject, adjective, mood in product(pronouns, people, MOODS):
        yield clause(subject, ETRE, [agree(adjective, subject.gender, subject.plural)], [adjective.en], *mood)
    for noun, mood in product(nouns + professions, MOODS):
        for adjective, (name, plural) in product(fitting(noun), determined(noun, indefinite=False)):
            if pick([True, False], noun.fr, noun.gender, adjective.lemma, name, plural, mood):
                subject, pair = noun_phrase(name, noun, plural), (noun.lemma, adjective.lemma)
                yield clause(subject, ETRE, [agree(adjective, noun.gender, plural)], [adjective.en], *mood, pair)


def subjects_of(verb: Verb, negative: bool, draws: int, *key) -> Iterator[Phrase]:
    """All pronouns, and nouns with `draws` determiners and often an adjective; un chat ne dort pas is hardly said."""
    yield from {pronoun.lemma: pronoun for pronoun in pronouns}.values()
    for noun, draw in product(nouns + professions, range(draws)):
        if common(noun.classes, verb.subjects):
            this = (noun.fr, noun.gender, verb.lemma, negative, draw, *key)
            name, plural = pick(determined(noun, indefinite=not negative), "determiner", *this)
            yield noun_phrase(name, noun, plural, pick([None, None, *fitting(noun)], "adjective", *this))


def without_object() -> Iterator[Sentence]:
    """les enfants dorment."""
    for verb, (negative, question) in product(verbs, MOODS):
        if verb.objects == "-" and verb is not ETRE:
            for subject in subjects_of(verb, negative, 4, question):
                yield clause(subject, verb, [], [], negative, question)


def with_object() -> Iterator[Sentence]:
    """la fille ne mange pas de pommes: of subjects, verbs and nouns half if a pronoun is the subject, else a fifth."""
    for verb, (negative, question), noun in product(verbs, MOODS, nouns + professions):
        if common(verb.objects, noun.classes) and verb is not ETRE:
            indefinite = verb.lemma != "aimer"  # one does not "like a cat"
            for subject in subjects_of(verb, negative, 1, question, noun.fr, noun.gender):
                key = (*subject.fr, verb.lemma, negative, question, noun.fr, noun.gender)
                one_of = 2 if len(subject.fr) == 1 else 5
                if subject.lemma != noun.lemma and pick([True] + [False] * (one_of - 1), *key):
                    name, plural = pick(determined(noun, indefinite), "determiner", *key)
                    adjective = pick([None] * len(fitting(noun)) + fitting(noun), "adjective", *key)
                    phrase = noun_phrase(name, noun, plural, adjective, verb, negative)
                    yield clause(subject, verb, phrase.fr, phrase.en, negative, question, *phrase.combinations)


def productions() -> Iterator[Sentence]:
    """All sentences of the rules, some of them twice ("je mange" of a man and of a woman); a hash leaves some out."""
    return chain(with_profession(), with_adjective(), without_object(), with_object())


def pairs() -> list[Sentence]:
    """The sentences of the grammar, each once, in an order that is always the same."""
    return list(dict.fromkeys(productions()))


# --- Split


def words(*texts: str) -> set[str]:
    """The word forms of texts; an elided word is a word of its own: l'école is l' and école."""
    return {word for text in texts for word in text.replace("'", "' ").split()}


def vocabulary(sentences: list[Sentence]) -> set[str]:
    """The words between spaces, in both languages: l'école is one word, and differs from la école."""
    return {word for s in sentences for word in (*s.source.split(), *s.target.split())}


def new_combinations(sentences: list[Sentence]) -> set[tuple[str, str]]:
    """Combinations to keep from training, by hash; the others still have all words, and enough of each lemma."""
    forms = Counter(form for s in sentences for form in vocabulary([s]))
    standing = Counter(pair for s in sentences for pair in s.combinations)
    fixed = {pair for s in sentences if s.source == KNOWN for pair in s.combinations}
    limit, chosen = NEW_SHARE * len(standing), set()
    for pair in sorted(set(standing) - fixed, key=lambda pair: hashlib.sha256(repr(pair).encode()).digest()):
        if len(chosen) >= limit:
            break
        gone = [s for s in sentences if pair in s.combinations and not s.combinations & chosen]
        fewer_forms = forms - Counter(form for s in gone for form in vocabulary([s]))  # the forms that are left
        fewer = standing - Counter(pair for s in gone for pair in s.combinations)
        enough = all(sum(member in other for other in fewer) >= PARTNERS for member in pair)
        if enough and len(fewer_forms) == len(forms):
            chosen.add(pair)
            forms, standing = fewer_forms, fewer
    return chosen


def split(sentences: list[Sentence], fraction: float = 0.1) -> tuple[list[Sentence], list[Sentence], list[Sentence]]:
    """(train, held out, new pairs).

    New pairs are all sentences with a combination that training has nowhere. Of the rest, about `fraction` is held out
    by the hash of the source; a sentence with a word that training would otherwise lack is trained on.
    """
    new = new_combinations(sentences)
    new_pairs = [s for s in sentences if s.combinations & new]
    rest = [s for s in sentences if not s.combinations & new]
    train = [s for s in rest if s.source == KNOWN or not held_out(s.source, fraction)]
    trained, known, heldout = set(train), vocabulary(train), []
    for s in rest:
        if s not in trained:
            (heldout if vocabulary([s]) <= known else train).append(s)
            known |= vocabulary([s])
    return train, heldout, new_pairs
