"""The words of the built-in corpus, typed: who can do what with what.

One row for each word. A noun's row: kind, gender, German singular and plural, English singular (plural if irregular).
Masculine nouns of the weak declension carry their oblique form after a slash (Junge/Jungen); ``-`` as the plural
marks a substance, which is never counted. The genitive of the others is the singular + s, or what stands in brackets.
"""

from __future__ import annotations

from dataclasses import dataclass

_NOUNS = """
person m Mann(Mannes) Männer man men
person f Frau Frauen woman women
person m Junge/Jungen Jungen boy
girl n Mädchen Mädchen girl
girl n Kind(Kindes) Kinder child children
person m Lehrer Lehrer teacher
person f Ärztin Ärztinnen doctor
person m Student/Studenten Studenten student
person m Nachbar/Nachbarn Nachbarn neighbour
person f Köchin Köchinnen cook
person m Bäcker Bäcker baker
person f Künstlerin Künstlerinnen artist
person f Sängerin Sängerinnen singer
person m Polizist/Polizisten Polizisten policeman policemen
person m Kollege/Kollegen Kollegen colleague
person m Freund(Freundes) Freunde friend
person m Gast(Gastes) Gäste guest
person f Mutter Mütter mother
person m Vater Väter father
person f Schwester Schwestern sister
person m Bruder Brüder brother
person f Tochter Töchter daughter
person m Sohn(Sohnes) Söhne son
person f Tante Tanten aunt
person m Onkel Onkel uncle
person m Großvater Großväter grandfather
person f Großmutter Großmütter grandmother
animal m Hund(Hundes) Hunde dog
animal f Katze Katzen cat
animal n Pferd(Pferdes) Pferde horse
animal m Vogel Vögel bird
animal f Maus Mäuse mouse mice
animal f Kuh Kühe cow
animal m Bär/Bären Bären bear
animal m Affe/Affen Affen monkey
animal m Elefant/Elefanten Elefanten elephant
animal f Ente Enten duck
animal n Schaf(Schafes) Schafe sheep sheep
fruit m Apfel Äpfel apple
fruit f Birne Birnen pear
fruit f Banane Bananen banana
fruit f Orange Orangen orange
fruit f Tomate Tomaten tomato tomatoes
food m Kuchen Kuchen cake
food f Suppe Suppen soup
food n Ei(Eis) Eier egg
food n Brötchen Brötchen roll
food f Pizza Pizzen pizza
food m Keks(Kekses) Kekse cookie
food m Salat(Salats) Salate salad
drink m Tee - tea
drink m Kaffee - coffee
drink f Milch - milk
drink n Wasser - water
drink m Saft(Saftes) - juice
drink m Wein(Weins) - wine
reading n Buch(Buches) Bücher book
reading f Zeitung Zeitungen newspaper
reading m Brief(Briefes) Briefe letter
reading m Roman Romane novel
reading f Geschichte Geschichten story stories
reading n Gedicht(Gedichts) Gedichte poem
reading m Bericht(Berichts) Berichte report
clothing m Mantel Mäntel coat
clothing n Hemd(Hemdes) Hemden shirt
clothing f Jacke Jacken jacket
clothing n Kleid(Kleides) Kleider dress dresses
clothing m Hut(Hutes) Hüte hat
clothing m Schal Schals scarf scarves
clothing f Mütze Mützen cap
clothing m Schuh(Schuhs) Schuhe shoe
vehicle n Auto Autos car
vehicle n Fahrrad(Fahrrads) Fahrräder bicycle
machine m Bus(Busses) Busse bus buses
vehicle n Boot(Bootes) Boote boat
machine m Traktor Traktoren tractor
thing m Schlüssel Schlüssel key
thing m Ball(Balls) Bälle ball
thing n Geschenk(Geschenks) Geschenke present
thing n Foto Fotos photo
thing n Bild(Bildes) Bilder picture
thing f Uhr Uhren watch watches
thing m Regenschirm(Regenschirms) Regenschirme umbrella
thing f Kamera Kameras camera
thing f Karte Karten map
thing n Messer Messer knife knives
thing n Glas(Glases) Gläser glass glasses
case m Koffer Koffer suitcase
case f Tasche Taschen bag
case f Kiste Kisten box boxes
opening f Tür Türen door
opening n Fenster Fenster window
support m Tisch(Tisches) Tische table
support m Stuhl(Stuhls) Stühle chair
support n Bett(Bettes) Betten bed
support n Sofa Sofas sofa
support m Schrank(Schranks) Schränke cupboard
support f Bank Bänke bench benches
support f Lampe Lampen lamp
place m Park(Parks) Parks park
place m Garten Gärten garden
place f Küche Küchen kitchen
place f Schule Schulen school
place f Stadt Städte city
place m Wald(Waldes) Wälder forest
place n Museum Museen museum
place n Haus(Hauses) Häuser house
place n Zimmer Zimmer room
place f Bibliothek Bibliotheken library
place n Restaurant Restaurants restaurant
place m Markt(Marktes) Märkte market
place m Balkon(Balkons) Balkone balcony
place f Wiese Wiesen meadow
place f Brücke Brücken bridge
place m Strand(Strandes) Strände beach
place m See(Sees) Seen lake
place m Fluss(Flusses) Flüsse river
"""

# place: German preposition, English where, English whither
PLACES = {
    "Park": ("in", "in", "to"),
    "Garten": ("in", "in", "into"),
    "Küche": ("in", "in", "into"),
    "Schule": ("in", "in", "to"),
    "Stadt": ("in", "in", "to"),
    "Wald": ("in", "in", "into"),
    "Museum": ("in", "in", "to"),
    "Haus": ("in", "in", "into"),
    "Zimmer": ("in", "in", "into"),
    "Bibliothek": ("in", "in", "to"),
    "Restaurant": ("in", "in", "to"),
    "Markt": ("auf", "at", "to"),
    "Balkon": ("auf", "on", "onto"),
    "Wiese": ("auf", "on", "onto"),
    "Brücke": ("auf", "on", "onto"),
    "Strand": ("an", "on", "to"),
    "See": ("an", "by", "to"),
    "Fluss": ("an", "by", "to"),
}

# How something can be near a piece of furniture; the second word is English for both rest and motion.
NEAR = {"auf": "on", "unter": "under", "neben": "next to", "hinter": "behind", "vor": "in front of"}
SUPPORTS = {
    "Tisch": ("auf", "unter", "neben"),
    "Stuhl": ("auf", "unter", "neben", "hinter"),
    "Bett": ("auf", "unter", "neben"),
    "Sofa": ("auf", "neben", "hinter"),
    "Schrank": ("auf", "neben", "vor"),
    "Bank": ("auf", "unter", "neben", "hinter"),
    "Lampe": ("neben", "unter"),
}

# German stem, English, what it can be said of; a stem is what endings follow (müd-e, teur-e, dunkl-e).
_ADJECTIVES = """
jung young person animal girl
alt old person animal reading clothing vehicle thing case opening support place machine
klein small girl animal fruit food clothing vehicle thing case opening support place
groß tall person girl
groß big animal fruit food vehicle thing case opening support place machine
freundlich friendly person girl animal
müde/müd tired person girl animal
hungrig hungry person girl animal
krank sick person girl animal
glücklich happy person girl
klug clever person girl animal
fleißig diligent person
berühmt famous person
ehrlich honest person
neu new reading clothing vehicle thing case support place machine
teuer/teur expensive clothing vehicle thing case support drink
billig cheap clothing vehicle thing case support
schön beautiful clothing thing animal support place
rot red clothing vehicle thing case opening machine
blau blue clothing vehicle thing case opening machine
grün green clothing vehicle thing case opening machine
schwarz black clothing vehicle thing case animal
weiß white clothing vehicle case opening animal
braun brown clothing animal case
frisch fresh fruit food drink
süß sweet fruit
reif ripe fruit
heiß hot drink
kalt cold drink
interessant interesting reading
lang long reading
spannend exciting reading
langweilig boring reading
lustig funny reading person girl
schwer heavy case
leer empty case
kaputt broken vehicle machine
dunkel/dunkl dark place
ruhig quiet place person girl
"""

# Infinitive (prefix|stem if separable; du- and er-form in brackets if strong), participle (* if its perfect has sein),
# English (+ before a particle that moves behind a pronoun, _ before one that does not), frame (see ``Verb``), kinds of
# subjects, kinds of objects; then in any order manners, a place where it is done, stative (no -ing),
# sudden (nor any plan to do it), gern.
_VERBS = """
schlafen(schläfst,schläft) geschlafen sleep none person,girl,animal - calm place
arbeiten gearbeitet work none person - hard place gern
tanzen getanzt dance none person,girl - wild place gern
lachen gelacht laugh none person,girl - loud
weinen geweint cry none girl - loud quiet
singen gesungen sing none person,girl - loud quiet place gern
kochen gekocht cook none person - place gern
warten gewartet wait none person,girl,animal - patient place
schwimmen geschwommen* swim none person,girl - fast slow gern
auf|stehen aufgestanden* get+up none person,girl - early fast
auf|wachen aufgewacht* wake+up none person,girl,animal - early
ein|schlafen(schläfst,schläft) eingeschlafen* fall+asleep none person,girl,animal - fast
ein|kaufen eingekauft shop none person - early place:Stadt|Markt gern
zurück|kommen zurückgekommen* come+back none person,girl,animal - early
weg|laufen(läufst,läuft) weggelaufen* run+away none girl,animal - fast
an|kommen angekommen* arrive none person - early punctual
fern|sehen(siehst,sieht) ferngesehen watch+television none person,girl - gern
lesen(liest,liest) gelesen read acc person,girl reading fast loud place gern
schreiben geschrieben write acc person reading fast place gern
essen(isst,isst) gegessen eat acc person,girl,animal fruit,food fast place gern
trinken getrunken drink acc person,girl drink fast place gern
kaufen gekauft buy acc person fruit,food,reading,clothing,vehicle,thing,case fast place:Stadt|Markt
verkaufen verkauft sell acc person fruit,food,reading,clothing,vehicle,thing,case place:Stadt|Markt
suchen gesucht look_for acc person,girl thing,animal,clothing,person place
finden gefunden find acc person,girl thing,animal,clothing,reading place sudden
sehen(siehst,sieht) gesehen see acc person,girl,animal person,animal,vehicle,machine,girl place stative
hören gehört hear acc person,girl,animal person,animal,girl place stative
kennen gekannt know acc person person,girl,reading,place stative
lieben geliebt love acc person person,girl,animal,place stative
brauchen gebraucht need acc person thing,vehicle,clothing,case stative
haben gehabt have acc person,girl vehicle,thing,animal,clothing stative
tragen(trägst,trägt) getragen wear acc person,girl clothing gern
tragen(trägst,trägt) getragen carry acc person case slow
reparieren repariert repair acc person vehicle,machine,opening fast
waschen(wäschst,wäscht) gewaschen wash acc person vehicle,machine,clothing careful
putzen geputzt clean acc person opening,support careful
malen gemalt paint acc person,girl animal,place fast place gern
fotografieren fotografiert photograph acc person person,girl,animal,place gern
besuchen besucht visit acc person,girl person,place:Museum|Stadt|Schule gern
füttern gefüttert feed acc person,girl animal patient place gern
fragen gefragt ask acc person,girl person patient
verstehen verstanden understand acc person person,reading stative
verlieren verloren lose acc person thing,clothing place sudden
vergessen(vergisst,vergisst) vergessen forget acc person thing,case sudden
an|rufen angerufen call acc person person early
ab|holen abgeholt pick+up acc person person,girl,case early punctual
ein|laden(lädst,lädt) eingeladen invite acc person person gern
auf|machen aufgemacht open acc person,girl opening,case careful quiet
zu|machen zugemacht close acc person,girl opening,case careful quiet
auf|räumen aufgeräumt tidy+up acc person,girl place:Küche|Zimmer|Haus fast
an|ziehen angezogen put+on acc person,girl clothing fast
aus|ziehen ausgezogen take+off acc person,girl clothing fast
weg|werfen(wirfst,wirft) weggeworfen throw+away acc person thing,clothing,reading
auf|essen(isst,isst) aufgegessen eat+up acc person,girl,animal fruit,food fast
aus|trinken ausgetrunken drink+up acc person drink fast
mit|bringen mitgebracht bring+along acc person food,thing,reading,animal
ein|packen eingepackt pack acc person clothing,thing,reading fast careful
an|schauen angeschaut look_at acc person,girl animal,thing,place,clothing careful place
helfen(hilfst,hilft) geholfen help dat person,girl person,girl gern place
danken gedankt thank dat person,girl person
folgen gefolgt* follow dat person,girl,animal person,animal,machine slow
antworten geantwortet answer dat person,girl person fast loud
gratulieren gratuliert congratulate dat person person
zu|hören zugehört listen_to dat person,girl person careful gern
zu|schauen zugeschaut watch dat person,girl person,animal place gern
gehören gehört belong_to dat vehicle,thing,case,clothing,animal person stative
gefallen(gefällst,gefällt) gefallen like exp reading,clothing,thing,vehicle,place person stative
schmecken geschmeckt enjoy exp fruit,food person stative
geben(gibst,gibt) gegeben give ditr person,girl reading,thing,case,fruit
zeigen gezeigt show_to ditr person,girl reading,thing,clothing,animal,vehicle gern
an|bieten angeboten offer ditr person fruit,food,drink
schicken geschickt send ditr person reading,thing
bringen gebracht bring ditr person,girl reading,food,thing,drink
leihen geliehen lend ditr person reading,vehicle:Auto|Fahrrad,thing,case
verkaufen verkauft sell_to ditr person vehicle,thing,animal
vor|lesen(liest,liest) vorgelesen read ditr person reading loud slow gern
zurück|geben(gibst,gibt) zurückgegeben return_to ditr person reading,thing,case
sitzen gesessen sit rest person,girl,animal place calm
stehen gestanden stand rest person,girl,animal place
spielen gespielt play rest girl,animal place loud quiet gern
bleiben geblieben* stay rest person,girl place gern
wohnen gewohnt live rest person place:Stadt|Haus stative gern
gehen gegangen* go move person,girl place slow
laufen(läufst,läuft) gelaufen* run move person,girl,animal place fast
fahren(fährst,fährt) gefahren* drive move person place:Stadt|Museum|Strand|See|Restaurant fast slow
kommen gekommen* come move person,girl place early punctual
rennen gerannt* rush move girl,animal,person place:Garten|Küche|Haus|Zimmer|Schule
legen gelegt lay put person,girl reading,clothing,thing careful
stellen gestellt put put person,girl case careful
liegen gelegen lie lie reading,clothing,animal support
stehen gestanden stand lie case support
warten gewartet wait auf:acc:for person,girl person,machine patient
denken gedacht think an:acc:of person,girl person,animal
sprechen(sprichst,spricht) gesprochen talk mit:dat:to person,girl person loud quiet gern place
spielen gespielt play mit:dat:with girl,animal animal,girl gern place
träumen geträumt dream von:dat:about person,girl person,animal,place:Strand|See|Wald|Garten
lachen gelacht laugh über:acc:at person,girl reading,person loud
fragen gefragt ask nach:dat:about person machine,reading,thing
nach|denken nachgedacht think über:acc:about person reading,person careful
an|fangen(fängst,fängt) angefangen begin mit:dat:with person reading early
kochen gekocht cook für:acc:for person person,girl gern
arbeiten gearbeitet work für:acc:for person person hard gern
gehen gegangen* go zu:dat:to person,girl person early
fahren(fährst,fährt) gefahren* drive zu:dat:to person person
tanzen getanzt dance mit:dat:with person,girl person gern
wohnen gewohnt live bei:dat:with person person stative gern
"""

_WEATHER = """
regnen geregnet rain none weather -
schneien geschneit snow none weather -
"""

# key in the table above: German, English
MANNER = {
    "calm": ("ruhig", "calmly"),
    "quiet": ("leise", "quietly"),
    "loud": ("laut", "loudly"),
    "hard": ("hart", "hard"),
    "wild": ("wild", "wildly"),
    "patient": ("geduldig", "patiently"),
    "fast": ("schnell", "quickly"),
    "slow": ("langsam", "slowly"),
    "early": ("früh", "early"),
    "punctual": ("pünktlich", "punctually"),
    "careful": ("vorsichtig", "carefully"),
}

NAMES = (
    ("Anna", "f"), ("Maria", "f"), ("Julia", "f"), ("Lena", "f"), ("Emma", "f"),
    ("Peter", "m"), ("Paul", "m"), ("Martin", "m"), ("Daniel", "m"), ("Karl", "m"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun of both languages; ``plural`` is empty for a substance, ``oblique`` empty unless the noun is weak."""

    kind: str
    gender: str
    singular: str
    plural: str
    genitive: str
    oblique: str
    english: str
    english_plural: str


@dataclass(frozen=True, slots=True)
class Adjective:
    """``german`` stands alone after "sein"; ``stem`` takes the endings."""

    german: str
    stem: str
    english: str


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb of both languages and what goes with it.

    ``frame`` is none, acc, dat, ditr (dative and accusative), exp (German subject is the English object), rest and
    move (a place), put and lie (at a piece of furniture), or prep (``preposition``: German, case, English).
    ``english`` may have words after the verb, which ``particle`` holds: "pick up", "look for".
    """

    prefix: str
    infinitive: str
    du: str
    er: str
    participle: str
    with_sein: bool
    english: str
    particle: str
    movable: bool
    frame: str
    preposition: tuple[str, str, str]
    subjects: tuple[str, ...]
    objects: tuple[str, ...]
    manners: tuple[str, ...]
    places: tuple[str, ...]
    stative: bool
    sudden: bool
    gern: bool


@dataclass(frozen=True)
class Lexicon:
    """Everything above, parsed; nouns and adjectives by kind."""

    nouns: dict[str, list[Noun]]
    adjectives: dict[str, list[Adjective]]
    verbs: list[Verb]
    weather: list[Verb]

    def named(self, kinds: tuple[str, ...]) -> list[Noun]:
        """The nouns of these kinds; ``kind:Name|Name`` admits only those named."""
        chosen = []
        for entry in kinds:
            kind, _, names = entry.partition(":")
            chosen += [noun for noun in self.nouns[kind] if not names or noun.singular in names.split("|")]
        return chosen


def read_lexicon() -> Lexicon:
    """The tables of this module as objects."""
    nouns: dict[str, list[Noun]] = {}
    for row in _NOUNS.split("\n")[1:-1]:
        noun = _noun(row.split())
        nouns.setdefault(noun.kind, []).append(noun)
    adjectives: dict[str, list[Adjective]] = {}
    for row in _ADJECTIVES.split("\n")[1:-1]:
        german, english, *kinds = row.split()
        alone, _, stem = german.partition("/")
        for kind in kinds:
            adjectives.setdefault(kind, []).append(Adjective(alone, stem or alone, english))
    verbs, weather = ([_verb(row.split()) for row in rows.split("\n")[1:-1]] for rows in (_VERBS, _WEATHER))
    return Lexicon(nouns, adjectives, verbs, weather)


def _noun(fields: list[str]) -> Noun:
    kind, gender, german, plural, english, *irregular = fields
    nominative, _, oblique = german.partition("/")
    singular, _, genitive = nominative.rstrip(")").partition("(")
    if not genitive:
        genitive = oblique or (singular if gender == "f" else singular + "s")
    plural = "" if plural == "-" else plural
    return Noun(
        kind, gender, singular, plural, genitive, oblique, english, irregular[0] if irregular else english + "s"
    )


def _verb(fields: list[str]) -> Verb:
    german, participle, english, frame, subjects, objects, *extras = fields
    infinitive, _, strong = german.rstrip(")").partition("(")
    prefix, _, bare = infinitive.rpartition("|")
    du, _, er = strong.partition(",")
    base, moving, particle = english.partition("+")
    if not moving:
        base, _, particle = english.partition("_")
    preposition = tuple(frame.split(":")) if ":" in frame else ("", "", "")
    places = [extra for extra in extras if extra.startswith("place")]
    return Verb(
        prefix=prefix,
        infinitive=bare,
        du=du,
        er=er,
        participle=participle.rstrip("*"),
        with_sein=participle.endswith("*"),
        english=base,
        particle=particle.replace("+", " "),
        movable=bool(moving),
        frame="prep" if ":" in frame else frame,
        preposition=(preposition[0], preposition[1], preposition[2]),
        subjects=tuple(subjects.split(",")),
        objects=tuple(objects.split(",")) if objects != "-" else (),
        manners=tuple(extra for extra in extras if extra in MANNER),
        places=tuple(places),
        stative="stative" in extras,
        sudden="sudden" in extras,
        gern="gern" in extras,
    )
