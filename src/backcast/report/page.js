// Swap each drawing for its interactive twin; where that fails, the drawing stays.
(function () {
  const page = JSON.parse(document.getElementById("chart-specs").textContent);
  const options = {
    mode: "vega-lite",
    renderer: "svg",
    ast: true, // an interpreter in place of eval, which the page's own policy forbids
    actions: { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
  };
  const views = [];

  function interactive(name, spec) {
    const place = document.getElementById(name);
    const drawing = place.innerHTML;
    return window.vegaEmbed(place, spec, options).then(function (made) {
      place.querySelector("summary").setAttribute("aria-label", "Save the chart " + name);
      if ((spec.params || []).some((param) => param.name === "hidden")) views.push(made.view);
    }).catch(function () {
      place.classList.remove("vega-embed");
      place.innerHTML = drawing;
    });
  }

  // buttons, because the legend of a chart cannot be reached by keyboard
  function choose(buttons) {
    const hidden = page.names.filter((_, i) => buttons[i].getAttribute("aria-pressed") === "false");
    for (const view of views) view.signal("hidden", hidden).runAsync();
  }

  function offerChoice() {
    const group = document.getElementById("shown");
    if (page.names.length < 2 || !views.length) return;
    const buttons = [...group.querySelectorAll("button")];
    for (const button of buttons) {
      button.addEventListener("click", function () {
        button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") === "false"));
        choose(buttons);
      });
    }
    group.hidden = false;
  }

  Promise.all(Object.entries(page.charts).map(([name, spec]) => interactive(name, spec))).then(offerChoice);
})();
