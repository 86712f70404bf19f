(() => {
  const byId = (id) => document.getElementById(id);
  const setting = byId("setting"), only = byId("only"), find = byId("find");
  const body = byId("numbers").tBodies[0], rows = [...body.rows];

  function filter() {
    const word = find.value.trim().toLowerCase();
    let shown = 0;
    for (const row of rows) {
      const fits = (!only.checked || row.dataset.setting === setting.value)
        && (!word || row.cells[0].textContent.toLowerCase().includes(word));
      row.hidden = !fits;
      shown += fits;
    }
    byId("count").textContent = `${shown} of ${rows.length} runs`;
  }

  function choose() {
    for (const part of document.querySelectorAll("div[data-setting]")) {
      part.hidden = part.dataset.setting !== setting.value;
    }
    filter();
  }

  const value = (row, column) => {
    const text = row.cells[column].textContent.replaceAll(",", "");
    const number = Number.parseFloat(text);
    return Number.isNaN(number) ? text : number;
  };
  // Sizes sort by what they are, not by their first digit.
  const size = (text) => {
    const [, number, unit] = /^([\d.]+) ([MG]B)/.exec(text) || [];
    return number ? Number(number) * (unit === "GB" ? 1024 : 1) : Infinity;
  };

  const heads = [...byId("numbers").tHead.rows[0].cells];
  heads.forEach((head, column) => head.addEventListener("click", () => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = (row) => column === 1 ? size(row.cells[1].textContent) : value(row, column);
    const keyed = rows.map((row) => [key(row), row]);
    keyed.sort(([a], [b]) => {
      const order = typeof a === "number" && typeof b === "number"
        ? (a === b ? 0 : a < b ? -1 : 1)
        : String(a).localeCompare(String(b), "en", { numeric: true });
      return up ? order : -order;
    });
    body.append(...keyed.map(([, row]) => row));
  }));

  setting.addEventListener("change", choose);
  only.addEventListener("change", filter);
  find.addEventListener("input", filter);
  choose();
})();
