"use strict";
// Draws each chart twice, for a light and a dark page; the style sheet shows the one that fits, and paper is light.
(() => {
  const data = JSON.parse(document.getElementById("chart-data").textContent);
  const places = [...document.querySelectorAll("[data-chart]")];

  const WIDEST = 560; // px of a plot among others: wider, its lines would be flat

  function sized(spec, width) {
    if (spec.vconcat && !spec.usermeta?.stretches) return spec;
    if (spec.vconcat) {
      const views = spec.vconcat.map((view) => ({ ...view, width: Math.min(width, WIDEST) }));
      return { ...spec, vconcat: views };
    }
    return spec.width === "container" ? { ...spec, width } : spec;
  }

  async function draw(place) {
    const spec = data.specs[place.dataset.chart];
    const room = place.clientWidth;
    place.dataset.room = room;
    if (spec.vconcat && !spec.usermeta?.stretches) {
      place.classList.add("fixed"); // scrolls in its box where the screen is narrow, by keyboard as well
      place.tabIndex = 0;
    }
    const made = [];
    for (const theme of ["light", "dark"]) {
      const view = document.createElement("div");
      view.className = theme;
      // The room that labels, legend and padding take beside the plot itself is found by drawing once.
      for (let width = spec.width === "container" ? room : room - 120, tries = 0; tries < 2; tries += 1) {
        const options = { config: data[theme], renderer: "svg", actions: false, ast: true, tooltip: { theme } };
        await vegaEmbed(view, sized(spec, Math.max(160, width)), options);
        const drawn = view.querySelector("svg").viewBox.baseVal.width;
        if (drawn <= room) break;
        width -= drawn - room;
      }
      made.push(view);
    }
    place.replaceChildren(...made);
  }

  async function drawAll() {
    for (const place of places) await draw(place);
    document.documentElement.dataset.charts = "drawn";
  }

  let waiting;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      for (const place of places) if (Math.abs(place.clientWidth - Number(place.dataset.room)) > 24) draw(place);
    }, 200);
  });
  drawAll();
})();
