// The speakers' names, and the result under these names: byte for byte what `diarize` writes.
const MOST_LETTERS = 100;
const names = [...data.labels];
const onRename = [];
const namesKey = `diarize:names:${data.digest}`;

// One line without what cannot be printed. Kept voices have the same rule.
function tidy(text) {
  const line = text.replace(/[\s\p{Z}]+/gu, " ").replace(/\p{C}/gu, "").trim();
  return [...line].slice(0, MOST_LETTERS).join("").trim();
}

// A name in RTTM; these are the blanks at which Python splits.
function inRttm(name) {
  const blanks = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/u;
  return name.split(blanks).filter(Boolean).join("_");
}

// Gives why the name cannot be taken, or nothing. No name: the one that the result has.
function rename(speaker, text) {
  const name = tidy(text) || data.labels[speaker];
  const taken = names.some((other, index) => index !== speaker && inRttm(other) === inRttm(name));
  if (taken) return `Another speaker is called ${name}.`;
  names[speaker] = name;
  for (const tell of onRename) tell();
  memory.write(namesKey, JSON.stringify(names));
  return "";
}

function recallNames() {
  let kept = null;
  try {
    kept = JSON.parse(memory.read(namesKey));
  } catch {
    return;
  }
  if (!Array.isArray(kept) || kept.length !== names.length) return;
  const fit = kept.every((name, speaker) => name === data.labels[speaker] || (name && tidy(String(name)) === name));
  if (!fit || new Set(kept.map(inRttm)).size < kept.length) return;
  names.splice(0, names.length, ...kept);
  for (const tell of onRename) tell();
}

function toRttm() {
  const seconds = (milliseconds) => (milliseconds / 1000).toFixed(3);
  return turns
    .map(({ start, end, speaker }) => {
      const name = inRttm(names[speaker]);
      return `SPEAKER ${data.fileId} 1 ${seconds(start)} ${seconds(end - start)} <NA> <NA> ${name} <NA> <NA>\n`;
    })
    .join("");
}

// The names are replaced in the text itself, so that every other byte stays. A string's own quotation marks are
// escaped, so what is found is a key and its value.
function toJson() {
  return resultText.replace(/"(speaker|label)":("(?:[^"\\]|\\.)*")/g, (whole, key, label) => {
    const speaker = speakerOf.get(JSON.parse(label));
    return names[speaker] === data.labels[speaker] ? whole : `"${key}":${JSON.stringify(names[speaker])}`;
  });
}

function save(text, ending, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = data.name + ending;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
