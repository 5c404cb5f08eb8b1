// Which part of the recording is shown: all tracks follow wavesurfer's scroll position and zoom.
const MOST_PIXELS_PER_S = 250;
const MOST_PIXELS = 8e6; // as wide as a waveform may get; browsers end at about 3e7
const view = { start: 0, end: duration, width: 1 }; // seconds, seconds, pixels
const onView = [];

function readView() {
  const whole = player.getWrapper().clientWidth || 1;
  const width = player.getWidth() || 1;
  view.width = width;
  view.start = (player.getScroll() / whole) * duration;
  view.end = Math.min(duration, view.start + (width / whole) * duration);
  for (const tell of onView) tell();
}

const xOf = (seconds) => ((seconds - view.start) / (view.end - view.start)) * view.width;
const timeAt = (x) => clamp(view.start + (x / view.width) * (view.end - view.start), 0, duration);
const pixelsPerSecond = () => view.width / (view.end - view.start);

// `anchor` stays where it is, or comes to the middle if it is not to be seen.
function zoom(factor, anchor = now()) {
  const most = Math.max(view.width / duration, Math.min(MOST_PIXELS_PER_S, MOST_PIXELS / duration));
  const wanted = clamp(pixelsPerSecond() * factor, view.width / duration, most);
  const seen = anchor >= view.start && anchor <= view.end;
  const x = seen ? xOf(anchor) : view.width / 2;
  player.zoom(wanted);
  player.setScroll(anchor * wanted - x);
  readView();
}

const showAll = () => zoom(0, 0);
const scrollTo = (seconds) => player.setScroll((seconds / duration) * player.getWrapper().clientWidth);

// A wheel over the tracks: sideways (or with shift) moves, with ctrl zooms.
function onWheel(event) {
  const sideways = event.shiftKey ? event.deltaY : event.deltaX;
  if (event.ctrlKey || event.metaKey) zoom(Math.exp(-event.deltaY / 200), timeAt(event.clientX - left()));
  else if (Math.abs(sideways) > 0) player.setScroll(player.getScroll() + sideways);
  else return;
  event.preventDefault();
}

const left = () => byId("wave").getBoundingClientRect().left;
