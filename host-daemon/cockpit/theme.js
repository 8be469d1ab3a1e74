/* Light or dark as Cockpit's shell has it: "shell:style" in the local storage, else what the browser prefers. */

const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");

function apply(style) {
    const dark = style === "dark" || (style !== "light" && prefersDark.matches);
    document.documentElement.classList.toggle("pf-v6-theme-dark", dark);
}

const stored = () => window.localStorage.getItem("shell:style");
window.addEventListener("storage", event => event.key === "shell:style" && apply(stored()));
window.addEventListener("cockpit-style", event => apply(event.detail?.style ?? stored()));
prefersDark.addEventListener("change", () => apply(stored()));
apply(stored());
