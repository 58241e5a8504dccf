// Replace each drawing by an interactive chart; if that fails, the drawing stays.
(function () {
  const page = JSON.parse(document.getElementById("chart-specs").textContent);
  const options = {
    mode: "vega-lite",
    renderer: "svg",
    ast: true, // an interpreter in place of eval, which the page's security policy forbids
    actions: { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
  };
  const views = [];

  function embedChart(name, spec) {
    const container = document.getElementById(name);
    const drawing = container.innerHTML;
    return window.vegaEmbed(container, spec, options).then(function (result) {
      container.querySelector("summary").setAttribute("aria-label", "Save the chart " + name);
      if ((spec.params || []).some((param) => param.name === "hidden")) views.push(result.view);
    }).catch(function () {
      container.classList.remove("vega-embed");
      container.innerHTML = drawing;
    });
  }

  function hideUnpressed(buttons) {
    const hidden = page.names.filter((_, i) => buttons[i].getAttribute("aria-pressed") === "false");
    for (const view of views) view.signal("hidden", hidden).runAsync();
  }

  // buttons, because the legend of a chart is not accessible by keyboard
  function showButtons() {
    const group = document.getElementById("shown");
    if (page.names.length < 2 || !views.length) return;
    const buttons = [...group.querySelectorAll("button")];
    for (const button of buttons) {
      button.addEventListener("click", function () {
        button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") === "false"));
        hideUnpressed(buttons);
      });
    }
    group.hidden = false;
  }

  Promise.all(Object.entries(page.charts).map(([name, spec]) => embedChart(name, spec))).then(showButtons);
})();
