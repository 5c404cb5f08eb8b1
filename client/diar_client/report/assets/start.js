// Everything is there: put it together.
function showNames() {
  document.querySelectorAll(".called").forEach((element) => {
    element.textContent = names[element.dataset.speaker];
  });
  document.querySelectorAll(".bar rect").forEach((part) => {
    const title = part.querySelector("title");
    title.textContent = `${names[part.dataset.speaker]}: ${title.textContent.split(": ").at(-1)}`;
  });
  lanes.forEach((lane, speaker) => {
    const input = lane.querySelector("input");
    input.value = names[speaker];
    input.title = `${names[speaker]} – click to rename`;
  });
  fillChoice();
  drawRows();
}

function wireName(input, speaker) {
  const complain = (problem) => {
    input.setCustomValidity(problem);
    input.classList.toggle("wrong", Boolean(problem));
    if (problem) input.reportValidity();
  };
  input.addEventListener("change", () => {
    const problem = rename(speaker, input.value);
    complain(problem);
  });
  input.addEventListener("input", () => complain(""));
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      input.value = names[speaker];
      complain("");
    }
    if (event.key === "Enter" || event.key === "Escape") input.blur();
  });
  input.addEventListener("focus", () => input.select());
}

byId("clock").append("", element("small", "", ` / ${clockText(duration)}`));
byId("overlap-lane").hidden = !data.overlaps.length;
onRename.push(showNames);
onView.push(drawSoon);

lanes.forEach((lane, speaker) => wireName(lane.querySelector("input"), speaker));
[...tracks, byId("wave"), byId("ruler"), byId("overlap")].forEach((canvas) => dragged(canvas, timeAt, seek));
dragged(
  byId("overview"),
  (x) => (x / byId("overview").clientWidth) * duration,
  (seconds) => scrollTo(seconds - (view.end - view.start) / 2),
);
byId("timeline").addEventListener("pointermove", showTip);
byId("timeline").addEventListener("pointerleave", showTip);
byId("timeline").addEventListener("wheel", onWheel, { passive: false });
document.addEventListener("keydown", onKey);
list.addEventListener("scroll", drawRows);
new ResizeObserver(drawRows).observe(list);
only.addEventListener("change", fillList);

byId("play").onclick = playOrPause;
byId("previous").onclick = () => goToTurn(-1);
byId("next").onclick = () => goToTurn(1);
byId("zoom-in").onclick = () => zoom(2);
byId("zoom-out").onclick = () => zoom(0.5);
byId("zoom-fit").onclick = showAll;
byId("speed").onchange = () => changeSpeed(0);
byId("theme").onclick = changeTheme;
byId("save-rttm").onclick = () => save(toRttm(), ".rttm", "text/plain");
byId("save-json").onclick = () => save(toJson(), ".json", "application/json");

audio.addEventListener("error", showTrouble);
for (const event of ["play", "pause", "finish"]) player.on(event, showPlaying);
for (const event of ["ready", "redraw", "scroll", "resize"]) player.on(event, readView);
player.on("timeupdate", showPlace);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
new ResizeObserver(readView).observe(byId("timeline"));

const theme = memory.read("diarize:theme");
if (theme === "dark" || theme === "light") setTheme(theme);
fillChoice();
fillList();
recallNames();
showTrouble();
