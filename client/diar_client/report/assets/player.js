// wavesurfer.js draws the waveform from the peaks and plays the sound.
const audio = byId("audio");
const colourOf = (element) => getComputedStyle(element).color;

function bytesOf(base64) {
  const pieces = [];
  for (let at = 0; at < base64.length; at += 1 << 20) {
    pieces.push(Uint8Array.from(atob(base64.slice(at, at + (1 << 20))), (letter) => letter.charCodeAt(0)));
  }
  return pieces;
}

function soundUrl() {
  if (data.sound !== "embedded") return data.link || "";
  const element = byId("sound");
  const blob = new Blob(bytesOf(element.textContent), { type: data.type });
  element.remove();
  return URL.createObjectURL(blob);
}

function peaks() {
  const bytes = bytesOf(data.peaks).flatMap((piece) => [...piece]);
  return Float32Array.from(bytes.length ? bytes : [0], (byte) => byte / 255);
}

if (data.sound !== "none") audio.src = soundUrl();
const player = WaveSurfer.create({
  container: byId("wave"),
  media: audio,
  peaks: [peaks()],
  duration,
  height: "auto",
  normalize: true,
  barWidth: 2,
  barGap: 1,
  barRadius: 2,
  cursorWidth: 0,
  interact: false, // pressing and dragging is the same on all tracks: see keys.js
  dragToSeek: false,
  hideScrollbar: true,
  waveColor: colourOf(byId("wave")),
  progressColor: colourOf(byId("playhead")),
  cspNonce: document.querySelector("style").nonce,
});
const canPlay = () => data.sound !== "none" && !audio.error;
const now = () => player.getCurrentTime();

// By the sound itself: wavesurfer loses a seek that comes while another one is under way.
function seek(seconds) {
  const place = clamp(seconds, 0, duration);
  if (audio.readyState >= HTMLMediaElement.HAVE_METADATA) audio.currentTime = place;
  else player.setTime(place);
}

function playOrPause() {
  if (canPlay()) player.playPause().catch(showTrouble);
}

function showTrouble() {
  const problem = audio.error && `This browser cannot play ${data.link || "the sound"}.`;
  byId("trouble").textContent = data.sound === "none" ? "without sound" : problem || "";
  byId("play").disabled = !canPlay();
}

function showPlaying() {
  byId("play").classList.toggle("playing", player.isPlaying());
  byId("play").setAttribute("aria-label", player.isPlaying() ? "Pause" : "Play");
}

function changeSpeed(step) {
  const select = byId("speed");
  select.selectedIndex = clamp(select.selectedIndex + step, 0, select.length - 1);
  player.setPlaybackRate(Number(select.value));
}

// The turn before or after the current place, by their starts; `of` is all turns or those of one speaker.
function goToTurn(step, of = ordered) {
  const place = now() * 1000;
  const next = firstIndex(of.length, (index) => of[index].start > place + 1);
  const turn = step > 0 ? of[next] : of[firstIndex(of.length, (index) => of[index].start >= place - 500) - 1];
  if (turn) seek(turn.start / 1000);
}
