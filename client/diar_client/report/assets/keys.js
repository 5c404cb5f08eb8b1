// Keyboard, pointer, theme.
const KEYS = {
  " ": playOrPause,
  k: playOrPause,
  ArrowLeft: (event) => seek(now() - (event.shiftKey ? 1 : 5)),
  ArrowRight: (event) => seek(now() + (event.shiftKey ? 1 : 5)),
  ArrowUp: () => goToTurn(-1),
  ArrowDown: () => goToTurn(1),
  Home: () => seek(0),
  End: () => seek(duration),
  "+": () => zoom(2),
  "=": () => zoom(2),
  "-": () => zoom(0.5),
  0: showAll,
  "[": () => changeSpeed(-1),
  "]": () => changeSpeed(1),
  t: changeTheme,
};

function onKey(event) {
  const typing = event.target.closest("input, select");
  const pressing = event.key === " " && event.target.closest("button:focus-visible");
  if (typing || pressing || event.ctrlKey || event.metaKey || event.altKey) return;
  const digit = /^[1-9]$/.test(event.key) && turnsOf[Number(event.key) - 1];
  const act = digit ? () => goToTurn(1, digit) : KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!act) return;
  event.preventDefault();
  act(event);
}

// Pressing and dragging on a track: `act` gets the place as a time of what the track shows.
function dragged(track, timeOf, act) {
  const go = (event) => act(timeOf(event.clientX - left()));
  track.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    track.setPointerCapture(event.pointerId);
    go(event);
  });
  track.addEventListener("pointermove", (event) => {
    if (track.hasPointerCapture(event.pointerId)) go(event);
  });
}

// What is under the pointer: the time, and the turn if there is one.
function showTip(event) {
  const tip = byId("tip");
  const track = event.target.closest(".track, .overlap, .ruler, .wave");
  tip.style.visibility = track ? "visible" : "hidden";
  if (!track) return;
  const box = byId("timeline").getBoundingClientRect();
  const x = event.clientX - left();
  const seconds = timeAt(x);
  const speaker = tracks.indexOf(track);
  const turn = speaker < 0 ? undefined : turnAt(speaker, seconds);
  tip.textContent = turn
    ? `${names[speaker]}\n${clockText(turn.start / 1000, 2)} – ${clockText(turn.end / 1000, 2)}\n` +
      `${((turn.end - turn.start) / 1000).toFixed(2)} s, confidence ${turn.confidence.toFixed(2)}`
    : clockText(seconds, 1);
  const place = clamp(x + 14, 0, view.width - tip.offsetWidth);
  tip.style.transform = `translate(${place}px, ${event.clientY - box.top + 18}px)`;
}

function changeTheme() {
  const preferred = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const theme = (document.documentElement.dataset.theme || preferred) === "dark" ? "light" : "dark";
  setTheme(theme);
  memory.write("diarize:theme", theme);
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  recolour();
}

function recolour() {
  player.setOptions({ waveColor: colourOf(byId("wave")), progressColor: colourOf(byId("playhead")) });
  drawSoon();
}
