/* The page's elements. Names come from others, so text gets in only as text nodes. */

import {COLUMNS, cpuMap, decision, detail, heading, printable, rows, timeline} from "./model.js";

const EVENTS_SHOWN = 200;
const shown = new WeakMap(); // by element

export const $ = id => document.getElementById(id);

/* An element with these attributes and children: elements, or text. Properties, not attributes, begin with ".". */
export function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
        if (key.startsWith(".")) made[key.slice(1)] = value;
        else if (value !== null && value !== undefined && value !== false)
            made.setAttribute(key, value === true ? "" : value);
    }
    made.append(...children);
    return made;
}

/* Whether `value` differs from what this element last showed. What is the same is not drawn: focus and scroll stay. */
function changed(place, value) {
    const text = JSON.stringify(value);
    if (shown.get(place) === text) return false;
    shown.set(place, text);
    return true;
}

/* Shows `parts` as the children of `parent`, in order. Each has a `key`, a `value`, and `draw`, which makes its element.
 * A part whose value is the same as before keeps its element: with 1,000 domains few parts change in a second. */
function showParts(parent, parts) {
    const before = shown.get(parent) ?? new Map(),
        now = new Map();
    for (const {key, value, draw} of parts) {
        const text = JSON.stringify(value),
            old = before.get(key);
        now.set(key, old?.text === text ? old : {text, made: draw()});
    }
    shown.set(parent, now);
    for (const [key, old] of before) if (now.get(key) !== old) old.made.remove();
    let next = parent.firstChild;
    for (const {made} of now.values()) {
        if (made === next) next = next.nextSibling;
        else parent.insertBefore(made, next);
    }
}

const colour = number => (number === null || number === undefined ? "" : `colour-${number}`);

export function showHeading(status, problem) {
    const {facts, warnings} = status ? heading(status) : {facts: [], warnings: []};
    if (problem) warnings.unshift(status ? `${problem} All values are old.` : problem);
    if (changed($("facts"), facts))
        $("facts").replaceChildren(
            ...facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))),
        );
    if (changed($("problems"), warnings))
        $("problems").replaceChildren(...warnings.map(text => element("p", {}, printable(text))));
    document.body.classList.toggle("old", Boolean(problem));
}

export function showMap(status, host, selected) {
    const cell = one =>
        element(
            "span",
            {
                class: `cell ${one.kind} ${colour(one.colour)} ${one.domain === (selected ?? "") ? "selected" : ""}`,
                title: `pCPU ${one.cpu}: ${one.kind === "domain" ? printable(one.domain) : one.kind}`,
            },
            one.mark,
        );
    const draw = node =>
        element(
            "div",
            {class: "node"},
            element("span", {class: "node-name", "aria-hidden": "true"}, node.label),
            element(
                "div",
                {class: "cores", role: "img", "aria-label": node.spoken},
                ...node.cores.map(core => element("span", {class: "core"}, ...core.map(cell))),
            ),
        );
    const holds = node => node.cores.some(core => core.some(one => one.domain === (selected ?? "")));
    showParts(
        $("map"),
        cpuMap(status, host).map(node => ({
            key: node.node,
            value: [node, holds(node)],
            draw: () => draw(node),
        })),
    );
}

/* The names of the columns sort. On a narrow screen they are hidden, and a choice in front of the table does it. */
export function showColumns(order, onSort) {
    const header = document.querySelector("#domains thead tr");
    header.replaceChildren(
        ...COLUMNS.map(column => {
            const down = order.descending ?? Boolean(column.number),
                by = column.name === order.column;
            return element(
                "th",
                {
                    scope: "col",
                    class: column.number ? "number" : null,
                    "aria-sort": by ? (down ? "descending" : "ascending") : "none",
                },
                element(
                    "button",
                    {type: "button", ".onclick": () => onSort(column)},
                    column.name + (by ? (down ? " ▼" : " ▲") : ""),
                ),
            );
        }),
    );
    const sorted = COLUMNS.find(column => column.name === order.column),
        choice = $("order-column");
    if (!choice.options.length) choice.append(...COLUMNS.map(column => element("option", {}, column.name)));
    choice.value = sorted.name;
    choice.onchange = () => onSort(COLUMNS.find(column => column.name === choice.value));
    $("order-turn").textContent = (order.descending ?? Boolean(sorted.number)) ? "▼ descending" : "▲ ascending";
    $("order-turn").onclick = () => onSort(sorted);
}

/* Rows are kept by name, so that the focus stays where it is while their cells change. */
const kept = new Map();

export function showTable(status, host, order, selected, onSelect) {
    const wanted = rows(status, host, order);
    const body = document.querySelector("#domains tbody");
    for (const row of wanted) {
        const line = kept.get(row.name) ?? newRow(row.name, onSelect);
        kept.set(row.name, line);
        if (!changed(line, [row, row.name === selected])) continue;
        line.classList.toggle("selected", row.name === selected);
        const [badge, name] = line.querySelector("button").children;
        badge.className = `badge ${colour(row.colour)}`;
        line.querySelector("button").setAttribute("aria-pressed", row.name === selected);
        const texts = [badge, name, ...[...line.cells].slice(1)];
        [row.mark, ...row.cells].forEach((text, index) => {
            if (texts[index].textContent !== text) texts[index].textContent = text;
        });
    }
    const lines = wanted.map(row => kept.get(row.name)),
        names = new Set(wanted.map(row => row.name));
    for (const name of kept.keys()) if (!names.has(name)) kept.delete(name);
    if (lines.length !== body.children.length || lines.some((line, index) => body.children[index] !== line)) {
        const focused = document.activeElement;
        body.replaceChildren(...lines);
        if (body.contains(focused)) focused.focus({preventScroll: true});
    }
}

function newRow(name, onSelect) {
    const cells = COLUMNS.map(column =>
        element("td", {class: column.number ? "number" : null, "data-label": column.name}),
    );
    cells[0] = element(
        "th",
        {scope: "row"},
        element("button", {type: "button", class: "name"}, element("span"), element("span")),
    );
    return element("tr", {".onclick": () => onSelect(name)}, ...cells);
}

export function showDetail(domain, weightsCount, buttons) {
    $("detail").hidden = !domain;
    if (!domain) return;
    const said = detail(domain, weightsCount);
    if (changed($("detail-text"), said)) {
        $("detail-title").textContent = said.name;
        $("detail-text").replaceChildren(
            ...said.sentences.map(text => element("p", {}, text)),
            ...said.programs.map(shownProgram),
        );
    }
    const place = document.querySelector("#detail .buttons");
    if (
        changed(
            place,
            buttons.map(one => [domain.name, one.label, one.disabled]),
        )
    )
        place.replaceChildren(
            ...buttons.map(one =>
                element(
                    "button",
                    {type: "button", disabled: one.disabled, title: one.hint, ".onclick": one.onClick},
                    one.label,
                ),
            ),
        );
}

/* Shows why a domain has what it has, in the part of the selected domain. `note`: why it is not shown, or null. */
export function showExplanation(questions, note) {
    $("explanation").replaceChildren(
        ...questions.map(one =>
            element("div", {}, element("h3", {}, one.title), ...one.sentences.map(text => element("p", {}, text))),
        ),
        ...(note ? [element("p", {}, printable(note))] : []),
    );
}

function shownProgram(program) {
    const bars = program.points.map(point => {
        const bar = element("span", {class: "bar"});
        bar.style.width = `${100 * point.share}%`;
        return element(
            "div",
            {class: "point"},
            element("span", {}, point.label),
            element("span", {}, point.text),
            element("span", {class: "track", "aria-hidden": "true"}, bar),
        );
    });
    return element(
        "div",
        {class: "program"},
        element("h3", {}, program.title),
        element("p", {}, program.parts),
        ...(bars.length ? bars : [element("p", {}, "speedup unknown")]),
    );
}

export function showTimeline(status, events, now_ms, window_s) {
    const segment = (lane, one) => {
        const made = element(
            "span",
            {
                class: `segment ${one.known ? colour(lane.colour) : "not-known"}`,
                title: one.known ? `${lane.label}: ${one.count} pCPUs: ${one.cpus}` : `${lane.label}: unknown`,
            },
            one.known && one.to - one.from > 0.03 ? `${one.count}` : "",
        );
        made.style.left = `${100 * one.from}%`;
        made.style.width = `${100 * (one.to - one.from)}%`;
        made.style.height = `${one.known ? 35 + (65 * one.count) / Math.max(1, lane.most) : 100}%`;
        return made;
    };
    const draw = lane =>
        element(
            "div",
            {class: "lane"},
            element("span", {class: "lane-name", "aria-hidden": "true"}, lane.label),
            element(
                "div",
                {class: "lane-time", role: "img", "aria-label": lane.spoken},
                ...lane.segments.map(one => segment(lane, one)),
            ),
        );
    const lanes = timeline(status, events, now_ms - 1000 * window_s, now_ms).map(lane => ({
        key: lane.name,
        value: lane,
        draw: () => draw(lane),
    }));
    const none = {key: null, value: null, draw: () => element("p", {}, "No domain had pCPUs.")};
    showParts($("timeline"), lanes.length ? lanes : [none]);
}

export function showEvents(events, domain) {
    const draw = one =>
        element(
            "tr",
            {class: one.warning ? "warning" : null},
            ...[one.time, (one.warning ? "⚠ " : "") + one.kind, one.domain, one.change, one.why].map(text =>
                element("td", {}, text),
            ),
        );
    showParts(
        document.querySelector("#events tbody"),
        events
            .filter(one => domain === null || one.domain === domain)
            .slice(-EVENTS_SHOWN)
            .reverse()
            .map(event => ({
                key: `${event.number} ${event.time} ${event.kind}`,
                value: null,
                draw: () => draw(decision(event)),
            })),
    );
}

/* Asks for confirmation. `fields`: elements. `work` gets called on confirmation. If it fails, the dialog shows why. */
export function confirm({title, text, label, fields = [], work}) {
    const dialog = document.querySelector("dialog");
    $("dialog-title").textContent = title;
    $("dialog-text").textContent = text;
    $("dialog-error").textContent = "";
    $("dialog-do").textContent = label;
    $("dialog-fields").replaceChildren(...fields);
    $("dialog-cancel").onclick = () => dialog.close();
    const busy = now => {
        $("dialog-do").disabled = $("dialog-cancel").disabled = now;
        dialog.oncancel = event => now && event.preventDefault(); // Escape takes nothing back
    };
    busy(false);
    dialog.querySelector("form").onsubmit = async submitted => {
        submitted.preventDefault();
        busy(true);
        try {
            await work();
            dialog.close();
        } catch (error) {
            $("dialog-error").textContent = printable(error.message);
        } finally {
            busy(false);
        }
    };
    dialog.showModal();
}
