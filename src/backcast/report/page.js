// Swap each drawing for its interactive twin; where that fails, the drawing stays.
(function () {
  const specs = JSON.parse(document.getElementById("chart-specs").textContent);
  const options = {
    mode: "vega-lite",
    renderer: "svg",
    ast: true, // an interpreter in place of eval, which the page's own policy forbids
    actions: { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
  };
  for (const [name, spec] of Object.entries(specs)) {
    const place = document.getElementById(name);
    const drawing = place.innerHTML;
    window.vegaEmbed(place, spec, options).then(function () {
      place.querySelector("summary").setAttribute("aria-label", "Save this chart");
    }).catch(function () {
      place.classList.remove("vega-embed");
      place.innerHTML = drawing;
    });
  }
})();
