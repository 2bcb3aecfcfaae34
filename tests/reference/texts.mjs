// Texts that tokenizers stumble over, the same at every run: languages, code, emoji, controls, spaces, digits, contractions, marks, long runs.
const said = [
  "Once upon a time there was a little lamp that couldn't sleep; it'd burn all night, wouldn't it? THEY'LL say IT'S late, I'VE heard.",
  "Der Bär ging über die Straße und fraß süße Äpfel, größer als Fäuste.", "Où est passée la bibliothèque ? L'été dernier, j'ai lu çà et là.",
  "¿Dónde está el niño? ¡Mañana será otro día!", "Però così non va più: è l'una e un quarto.", "Não há coração que aguente; amanhã é São João.",
  "Żółć gęślą jaźń, pchnąć w tę łódź jeża.", "Příliš žluťoučký kůň úpěl ďábelské ódy.", "Árvíztűrő tükörfúrógép.", "Þetta er íslenska, hæ!",
  "Съешь же ещё этих мягких французских булок, да выпей чаю.", "Щастя, їжак і ґанок.", "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.", "עברית קלה עם נִקּוּד.",
  "نص حكيم له سر قاطع وذو شأن عظيم، ١٢٣٤.", "یک متن فارسی با نیم‌فاصله: می‌خواهم.", "हिन्दी में क्षत्रिय और ज्ञान लिखें।", "বাংলা ভাষায় কথা বলি।", "தமிழ் எழுத்து.", "ภาษาไทยไม่มีช่องว่างระหว่างคำ",
  "天地玄黃，宇宙洪荒。日月盈昃，辰宿列張。", "我今天吃了三个苹果，花了12.50元！", "いろはにほへと ちりぬるを。カタカナもﾊﾝｶｸも。", "키스의 고유조건은 입술끼리 만나야 하고", "Tiếng Việt có nhiều dấu: ữ ỡ ặ ễ.",
  "ქართული ენა", "Հայերեն լեզու", "አማርኛ ቋንቋ", "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ", "ᠮᠣᠩᠭᠣᠯ ᠪᠢᠴᠢᠭ", "བོད་ཡིག", "ភាសាខ្មែរ", "မြန်မာစာ", "Zażółć ǅ ǆ Ǆ ŉ ﬁ ﬀ İ ı ſ K Å Ω",
];
const code = [
  'int main(void)\n{\n\tprintf("%d\\n", 0x7fff);\n\treturn 0;\n}\n', "def f(x):\n    return [i**2 for i in range(x) if i % 3 == 0]\n\n\nclass A:\n        pass\n",
  "const g = async (x) => { await x?.y ?? z; };\r\n\r\n// done\r\n", "SELECT * FROM t WHERE a <> 'b' AND c >= 1e-5;", '{"a": [1, 2.5, null, true], "b\\u00e9": "\\n"}', "<p class='x'>a &amp; b</p><br/>\n",
  "#!/bin/sh\nset -eu; for f in *.c; do echo \"$f\"; done | sort -u > /dev/null 2>&1", "https://example.org/a_b-c?d=e&f=%20#g", "fn main() -> Result<(), Box<dyn Error>> { Ok(()) }", "\\frac{a}{b} \\sum_{i=0}^{n} x_i^2 $$",
  "| a | b |\n|---|---|\n| 1 | 2 |\n\n```c\nx\n```\n", "a@b.example 192.168.0.1 2026-11-30T19:57:11Z 1,234,567.89 0b1010 v1.2.3-rc4",
];
const emoji = ["😀", "😁", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "🇯🇵🇫🇷", "👍🏽", "❤️", "☃", "⌚️", "1️⃣", "🧑🏿‍🚀", "🀄", "🂡", "㊗️", "\u200d", "\ufe0f", "𓀀", "𝔘𝔫𝔦", "𠮷野家"];
const space = [" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\r", "\v", "\f", "\u00a0", "\u2003", "\u3000", "\u2028", "\u0085", "\u200b", "\ufeff", "\u180e", "\u2581", "\u202f"];
const short = ["'s", "'S", "'T", "'re", "'LL", "'d", "'", "’s", "''", "a", "I", "0", "12", "123", "1234", "Ⅷ", "½", "²", "٣", "_", "__", "-", "--", "...", "?!", "(", ")", "[INST]", "</", "<0x0A>", "<unused7>", "#", "e\u0301", "\u0301", "\u0323\u0307", "ä", "a\u0308", "ộ", "\u1100\u1161\u11a8", "각", "\ufb01", "\u2126", "\u0344", "\u0958"];
// Assigned since long, so that the Unicode versions of two programs do not matter; surrogates left out.
const ranges = [[0, 0x7f], [0x80, 0x24f], [0x250, 0x36f], [0x391, 0x3a1], [0x400, 0x52f], [0x5d0, 0x5ea], [0x621, 0x64a], [0x905, 0x939], [0xe01, 0xe3a], [0x10d0, 0x10f0], [0x1100, 0x1159],
  [0x1e00, 0x1eff], [0x2000, 0x2064], [0x2070, 0x2071], [0x20a0, 0x20b5], [0x2100, 0x214d], [0x2190, 0x23e7], [0x2460, 0x26b2], [0x2701, 0x27be], [0x3001, 0x303f], [0x3041, 0x3096], [0x4e00, 0x9fbb],
  [0xac00, 0xd7a3], [0xe000, 0xe0ff], [0xf900, 0xfa2d], [0xfb00, 0xfb06], [0xff01, 0xffbe], [0x10000, 0x1000b], [0x1d400, 0x1d454], [0x1f600, 0x1f64f], [0x20000, 0x2a6d6], [0xf0000, 0xf00ff]];

function random(seed) {
  let a = seed >>> 0; // mulberry32
  const next = () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const below = (n) => Math.floor(next() * n);
  return { below, pick: (list) => list[below(list.length)] };
}

function character(r) {
  const [from, to] = r.pick(ranges);
  return String.fromCodePoint(from + r.below(to - from + 1));
}

// A piece of a text, never through the middle of a character.
function slice(r, list) {
  const points = [...r.pick(list)];
  const from = r.below(points.length);
  return points.slice(from, from + 1 + r.below(40)).join("");
}

const some = (r, most, fn) => Array.from({ length: 1 + r.below(most) }, fn).join("");
const kinds = [
  (r) => slice(r, said), (r) => slice(r, said) + r.pick(space) + slice(r, said), (r) => slice(r, code), (r) => some(r, 8, () => r.pick(emoji)),
  (r) => some(r, 12, () => r.pick(short)), (r) => some(r, 12, () => r.pick(space)), (r) => some(r, 24, () => character(r)),
  (r) => some(r, 40, () => String.fromCharCode(32 + r.below(95))), (r) => some(r, 20, () => String.fromCharCode(r.below(160))),
  (r) => some(r, 8, () => r.pick([slice(r, said), slice(r, code), r.pick(emoji), r.pick(space), r.pick(short), character(r)])),
  (r) => some(r, 6, () => r.pick(short) + r.pick(space) + r.pick(emoji)), (r) => some(r, 10, () => String(r.below(10 ** (1 + r.below(9)))) + r.pick(space)),
  (r) => r.pick([character(r), r.pick(space), r.pick(short), r.pick(emoji)]).repeat(1 + r.below(60)),
];

export function texts(n, seed = 1) {
  const r = random(seed);
  const list = ["", " ", "\n", "\u0000", ...said, ...code, ...emoji, ...space, ...short];
  for (const c of ["A", "=", " ", "\n", "あ", "\u0301", "1", "ab", "-=", "QUJD"]) list.push(c.repeat(3000));
  while (list.length < n) list.push(r.pick(kinds)(r));
  return list.slice(0, n);
}

// Bytes that are no UTF-8: texts with a byte changed or put in. What is left of a text is in form C, too: an encoder that composes changes nothing.
export function damaged(n) {
  const r = random(2);
  const list = texts(n, 3).map((text) => {
    const b = [...Buffer.from(text.slice(0, 300).toWellFormed().normalize("NFC").replaceAll("\u2581", "_").replaceAll("\ufffd", "?"))];
    b.splice(r.below(b.length + 1), r.below(2), 0x80 + r.below(128));
    return Buffer.from(b);
  });
  return list.filter((b) => b.toString() === b.toString().normalize("NFC"));
}
