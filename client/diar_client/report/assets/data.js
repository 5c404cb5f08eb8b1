// What the page is about: the result as it stands, and what Python has put beside it.
const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const resultText = byId("result").textContent;
const duration = Math.max(data.duration, 0.001); // seconds
const speakerOf = new Map(data.labels.map((label, index) => [label, index]));

// Times in whole milliseconds, as RTTM prints them; in the result's order.
const turns = JSON.parse(resultText)[data.turns].map((turn) => ({
  start: Math.round(turn.start * 1000),
  end: Math.round(turn.end * 1000),
  speaker: speakerOf.get(turn.speaker),
  confidence: turn.confidence,
}));
const ordered = [...turns].sort((one, other) => one.start - other.start || one.end - other.end);
const turnsOf = data.labels.map((label, speaker) => ordered.filter((turn) => turn.speaker === speaker));

const overlaps = data.overlaps.map(([start, end]) => ({ start: start * 1000, end: end * 1000 }));

const clamp = (value, least, most) => Math.min(Math.max(value, least), most);

// The first index at which `holds` is true; it is false before and true after. `length` if nowhere.
function firstIndex(length, holds) {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

// 3725.5 -> "1:02:05.5"
function clockText(seconds, decimals = 0) {
  const units = 10 ** decimals;
  const all = Math.round(seconds * units);
  const whole = Math.floor(all / units);
  const two = (number) => String(number).padStart(2, "0");
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const text = hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
  return decimals ? `${text}.${String(all % units).padStart(decimals, "0")}` : text;
}

// What this browser keeps between visits; a page from a file may not be allowed to.
const memory = {
  read(key) {
    try {
      return localStorage.getItem(key);
    } catch {
      return null;
    }
  },
  write(key, value) {
    try {
      localStorage.setItem(key, value);
    } catch {
      // then not
    }
  },
};
