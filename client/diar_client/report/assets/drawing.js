// The tracks on canvas, only what is to be seen of them: cost does not grow with the number of turns.
const RULER_STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400];
const LABEL_PIXELS = 76; // from one label of the ruler to the next, at least
const DENSE_S = 0.5; // from so many seconds in a pixel on, columns are drawn instead of turns
const lanes = [...document.querySelectorAll(".lane[data-speaker]")];
const tracks = lanes.map((lane) => lane.querySelector("canvas"));

// The canvas, cleared, at the screen's resolution. Units are CSS pixels.
function blank(canvas) {
  const scale = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  context.fillStyle = colourOf(canvas);
  return { context, width, height };
}

const opacity = (confidence) => data.lightest + (1 - data.lightest) * confidence;

// Where turns are narrower than pixels: each column as solid as the share of it that they fill (its root, so that
// little is not nothing). `list`: {start, end} in milliseconds; the canvas shows `from` to `to` seconds.
function drawShares(context, list, from, to, width, top, height) {
  const perPixel = ((to - from) * 1000) / width;
  const shares = new Float32Array(Math.ceil(width) + 1);
  for (const { start, end } of list) {
    const first = Math.max(Math.floor((start - from * 1000) / perPixel), 0);
    const last = Math.min(Math.floor((end - from * 1000) / perPixel), shares.length - 1);
    for (let column = first; column <= last; column++) {
      const begin = from * 1000 + column * perPixel;
      shares[column] += Math.max(Math.min(end, begin + perPixel) - Math.max(start, begin), 0) / perPixel;
    }
  }
  shares.forEach((share, column) => {
    if (!share) return;
    context.globalAlpha = Math.min(Math.sqrt(share), 1);
    context.fillRect(column, top, 1, height);
  });
  context.globalAlpha = 1;
}

// Those of `list` (by start) that begin before the view's end; `longest` says how far back one may reach into it.
function* seen(list, longest) {
  const from = (view.start - longest) * 1000;
  for (let at = firstIndex(list.length, (index) => list[index].start >= from); at < list.length; at++) {
    if (list[at].start > view.end * 1000) return;
    if (list[at].end >= view.start * 1000) yield list[at];
  }
}

const longestOf = turnsOf.map((list) => list.reduce((most, turn) => Math.max(most, turn.end - turn.start), 0) / 1000);

function drawLane(speaker) {
  const { context, width, height } = blank(tracks[speaker]);
  const colour = context.fillStyle;
  const own = seen(turnsOf[speaker], longestOf[speaker]);
  if (pixelsPerSecond() * DENSE_S < 1) {
    drawShares(context, own, view.start, view.end, width, 4, height - 8);
    return;
  }
  context.fillStyle = colourOf(byId("overlap"));
  context.globalAlpha = 0.13;
  for (const { start, end } of seenOverlaps()) {
    const x = xOf(start / 1000);
    context.fillRect(x, 0, Math.max(xOf(end / 1000) - x, 1), height);
  }
  context.fillStyle = colour;
  for (const turn of own) {
    const begin = Math.max(xOf(turn.start / 1000), -9);
    const wide = Math.max(Math.min(xOf(turn.end / 1000), width + 9) - begin, 1.5);
    context.globalAlpha = opacity(turn.confidence);
    context.beginPath();
    context.roundRect(begin, 4, wide, height - 8, Math.min(4, wide / 3));
    context.fill();
  }
}

function* seenOverlaps() {
  const list = overlaps; // they do not overlap each other, so their ends ascend, too
  for (let at = firstIndex(list.length, (index) => list[index].end >= view.start * 1000); at < list.length; at++) {
    if (list[at].start > view.end * 1000) return;
    yield list[at];
  }
}

function drawOverlap() {
  const { context, width, height } = blank(byId("overlap"));
  if (pixelsPerSecond() * DENSE_S < 1) {
    drawShares(context, seenOverlaps(), view.start, view.end, width, 0, height);
    return;
  }
  for (const { start, end } of seenOverlaps()) {
    const x = xOf(start / 1000);
    context.fillRect(x, 0, Math.max(xOf(end / 1000) - x, 1.5), height);
  }
}

function drawRuler() {
  const { context, width, height } = blank(byId("ruler"));
  const scale = pixelsPerSecond();
  const step = RULER_STEPS.find((seconds) => seconds * scale >= LABEL_PIXELS) || RULER_STEPS.at(-1);
  let free = 0; // from here on there is no label yet
  context.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  for (let index = Math.ceil(view.start / step); index * step <= view.end; index++) {
    const x = xOf(index * step);
    context.fillRect(x, height - 6, 1, 6);
    const text = clockText(index * step, step < 1 ? 1 : 0);
    const wide = context.measureText(text).width + 4;
    const begin = x + wide < width ? x + 4 : x - wide;
    if (begin < free) continue;
    context.fillText(text, begin, height - 6);
    free = begin + wide + 4;
  }
}

// A thin row for each speaker over the whole length, and a frame around what the tracks show.
function drawOverview() {
  const { context, width, height } = blank(byId("overview"));
  const ink = context.fillStyle;
  const row = (height - 6) / Math.max(tracks.length, 1);
  tracks.forEach((track, speaker) => {
    context.fillStyle = colourOf(track);
    drawShares(context, turnsOf[speaker], 0, duration, width, 3 + speaker * row, Math.max(row - 0.5, 0.5));
  });
  context.strokeStyle = ink;
  context.lineWidth = 1.5;
  const [x, end] = [(view.start / duration) * width, (view.end / duration) * width];
  context.beginPath();
  context.roundRect(x + 0.75, 0.75, Math.max(end - x - 1.5, 3), height - 1.5, 5);
  context.stroke();
  context.globalAlpha = 0.12;
  context.fillStyle = ink;
  context.fillRect(0, 0, x, height);
  context.fillRect(end, 0, width - end, height);
}

function drawAll() {
  tracks.forEach((track, speaker) => drawLane(speaker));
  drawOverlap();
  drawRuler();
  drawOverview();
}

let wanted = 0;
function drawSoon() {
  cancelAnimationFrame(wanted);
  wanted = requestAnimationFrame(() => {
    drawAll();
    showPlace();
  });
}

// The playhead, the clock, who is speaking.
function showPlace() {
  const place = now();
  const x = xOf(place);
  byId("playhead").style.transform = `translateX(${x}px)`;
  byId("playhead").style.visibility = x < -2 || x > view.width + 2 ? "hidden" : "";
  byId("clock").firstChild.data = clockText(place, 1);
  lanes.forEach((lane, speaker) => lane.classList.toggle("speaking", turnAt(speaker, place) !== undefined));
  markTurn(place);
}

function turnAt(speaker, seconds) {
  const [list, place] = [turnsOf[speaker], seconds * 1000];
  const after = firstIndex(list.length, (index) => list[index].start > place);
  return after && list[after - 1].end > place ? list[after - 1] : undefined;
}
