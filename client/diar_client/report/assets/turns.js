// The list of turns. Only the rows in sight exist.
const ROW_PIXELS = 34;
const SPARE_ROWS = 6;
const list = byId("turns");
const only = byId("only");
let listed = ordered;
let current; // the turn that is marked

function fillList() {
  listed = only.value === "" ? ordered : turnsOf[Number(only.value)];
  byId("spacer").style.height = `${listed.length * ROW_PIXELS}px`;
  drawRows();
}

function drawRows() {
  const first = Math.max(0, Math.floor(list.scrollTop / ROW_PIXELS) - SPARE_ROWS);
  const count = Math.ceil(list.clientHeight / ROW_PIXELS) + 2 * SPARE_ROWS;
  const rows = byId("rows");
  rows.style.transform = `translateY(${first * ROW_PIXELS}px)`;
  rows.replaceChildren(...listed.slice(first, first + count).map(rowOf));
  if (!listed.length) rows.replaceChildren(element("div", "empty", "No speech was found."));
}

function element(kind, className, text) {
  const made = document.createElement(kind);
  made.className = className;
  made.textContent = text;
  return made;
}

function rowOf(turn) {
  const row = element("button", `turn s${turn.speaker % data.colours}`, "");
  row.tabIndex = -1;
  const person = element("span", "person", "");
  person.append(element("span", "dot", ""), element("bdi", "", names[turn.speaker]));
  const sure = document.createElement("meter");
  sure.value = turn.confidence;
  row.title = `confidence ${turn.confidence.toFixed(2)}`;
  const seconds = (turn.end - turn.start) / 1000;
  const length = `${seconds.toFixed(seconds < 1 ? 2 : 1)} s`;
  row.append(element("span", "at", clockText(turn.start / 1000, 1)), person, element("span", "length", length), sure);
  row.classList.toggle("now", turn === current);
  row.onclick = () => seek(turn.start / 1000);
  row.ondblclick = playOrPause;
  return row;
}

// Mark the turn that began last before `seconds` and still runs, and keep it in sight unless somebody is in the list.
function markTurn(seconds) {
  const after = firstIndex(listed.length, (index) => listed[index].start > seconds * 1000);
  const turn = after && listed[after - 1].end > seconds * 1000 ? listed[after - 1] : undefined;
  if (turn === current) return;
  current = turn;
  if (turn && !list.matches(":hover")) {
    const top = (after - 1) * ROW_PIXELS;
    if (top < list.scrollTop || top + ROW_PIXELS > list.scrollTop + list.clientHeight) {
      list.scrollTop = top - list.clientHeight / 3;
    }
  }
  drawRows();
}

function fillChoice() {
  const chosen = only.value;
  names.forEach((name, speaker) => {
    const option = only.options[speaker + 1] || only.appendChild(document.createElement("option"));
    option.value = String(speaker);
    option.textContent = name;
  });
  only.value = chosen;
}
