/* Joins the parts: asks the daemon again and again, keeps what it said, and shows it. */

import {
    explain,
    followEvents,
    get,
    hostTime_ms,
    post,
    readHostCpus,
    setBounds,
    watchAdministrativeAccess,
} from "./api.js";
import {explanation, hostCpus, interval_ms, printable} from "./model.js";
import {domainActions, policyOptions, policyText, rollbackText} from "./writes.js";
import {
    $,
    confirm,
    element,
    showColumns,
    showDetail,
    showEvents,
    showExplanation,
    showHeading,
    showMap,
    showTable,
    showTimeline,
} from "./view.js";

const EVENTS_KEPT = 1000;
const NEEDS_ACCESS = "You need administrative access for this.";

const page = {
    status: null,
    problem: null,
    host: hostCpus(null),
    events: [],
    order: {column: "domain", descending: null, words: ""},
    selected: null,
    administrator: null,
};

function show() {
    showHeading(page.status, page.problem);
    $("access").hidden = page.administrator !== false;
    $("set-policy").disabled = $("rollback").disabled = !page.administrator || !page.status;
    $("set-policy").title = $("rollback").title = page.administrator ? "" : NEEDS_ACCESS;
    $("rollback").hidden = !page.status?.policy_previous;
    const only = $("only-selected").checked ? page.selected : null;
    showEvents(page.events, only);
    if (!page.status) return;
    const domain = page.status.domains.find(one => one.name === page.selected);
    showMap(page.status, page.host, page.selected);
    showTable(page.status, page.host, page.order, page.selected, select);
    showDetail(domain, page.status.weights_count, domain ? domainButtons(domain) : []);
    showTimeline(page.status, page.events, hostTime_ms(), Number($("window").value));
}

function select(name) {
    page.selected = page.selected === name ? null : name;
    showExplanation([], null);
    show();
}

function sort(column) {
    const {order} = page,
        turned = order.column === column.name;
    page.order = {
        ...order,
        column: column.name,
        descending: turned ? !(order.descending ?? Boolean(column.number)) : null,
    };
    showColumns(page.order, sort);
    // The header is made anew, so the focus is lost. If it is hidden, this does nothing.
    document.querySelector("#domains [aria-sort=ascending] button, #domains [aria-sort=descending] button").focus();
    show();
}

async function refresh() {
    const before = page.status;
    try {
        page.status = await get("/v1/status");
        page.problem = null;
    } catch (error) {
        page.problem = error.message;
    }
    try {
        show();
    } catch (error) {
        console.error(error);
        page.status = before;
        page.problem = "This answer cannot be shown: is the daemon of another version?";
        show();
    }
}

async function refreshForever() {
    try {
        if (!document.hidden) await refresh();
    } finally {
        window.setTimeout(refreshForever, interval_ms(page.status)); // also after an answer that cannot be shown
    }
}

async function askExplanation(name) {
    let questions = [],
        note = null;
    showExplanation([], "Asking vscaf explain …");
    try {
        questions = explanation(await explain(name));
    } catch (error) {
        note = `vscaf explain: ${error.message}`;
    }
    if (page.selected === name) showExplanation(questions, note);
}

function domainButtons(domain) {
    const why = {
        label: "Explain",
        disabled: false,
        hint: "Why it has what it has",
        onClick: () => askExplanation(domain.name),
    };
    return [
        why,
        ...domainActions(domain).map(one => ({
            label: one.label,
            disabled: !page.administrator,
            hint: page.administrator ? null : NEEDS_ACCESS,
            onClick: () =>
                one.action === "bounds"
                    ? askBounds(domain.name, one)
                    : confirm({
                          title: one.title,
                          text: one.text,
                          label: one.action === "release" ? "Release" : "Manage",
                          work: () => change(one.action, domain.name),
                      }),
        })),
    ];
}

async function change(action, name) {
    const {domains} = await post(`/v1/${action}`, {domain: name});
    await refresh();
    if (!domains.includes(name))
        throw new Error(
            "Nothing was changed: the domain was already as you wanted it, or vscaf did not leave it alone by request.",
        );
}

function askBounds(name, action) {
    const domain = page.status.domains.find(one => one.name === name); // as it is now, not when the button was made
    const number = value => element("input", {type: "number", min: 1, required: true, value});
    const minimum = number(domain.rules?.minimum ?? 1),
        maximum = number(domain.rules?.maximum ?? domain.vcpus_maximum);
    const next = element("input", {type: "checkbox", ".checked": true});
    confirm({
        title: action.title,
        text: action.text,
        label: "Set bounds",
        fields: [
            element("label", {}, "Minimum ", minimum),
            element("label", {}, "Maximum ", maximum),
            element("label", {}, next, " also for its next start"),
        ],
        work: () => setBounds(domain, minimum.value, maximum.value, next.checked).then(refresh),
    });
}

async function askPolicy() {
    const status = page.status,
        choice = element("select", {id: "policy-name"});
    const options = element("textarea", {id: "policy-options", rows: 3, spellcheck: "false"});
    confirm({
        title: "Set the policy",
        text: policyText(status),
        label: "Set policy",
        fields: [element("label", {}, "Policy ", choice), element("label", {}, "Options, as a JSON object ", options)],
        work: () => post("/v1/policy", {name: choice.value, options: policyOptions(options.value)}).then(refresh),
    });
    try {
        const {installed, current} = await get("/v1/policies");
        choice.append(
            ...installed.map(name =>
                element("option", {value: name, ".selected": name === current.name}, printable(name)),
            ),
        );
        options.value = Object.keys(current.options).length ? JSON.stringify(current.options) : "";
    } catch (error) {
        $("dialog-error").textContent = printable(error.message);
    }
}

function askRollback() {
    confirm({
        title: "Roll back the policy",
        text: rollbackText(page.status),
        label: "Roll back",
        work: () => post("/v1/policy/rollback", {}).then(refresh),
    });
}

async function readHost() {
    page.host = await readHostCpus();
    show();
}

$("set-policy").onclick = askPolicy;
$("rollback").onclick = askRollback;
$("filter").oninput = event => {
    page.order = {...page.order, words: event.target.value};
    show();
};
$("window").onchange = $("only-selected").onchange = show;
document.addEventListener("visibilitychange", () => document.hidden || refresh());
showColumns(page.order, sort);
watchAdministrativeAccess(allowed => {
    page.administrator = allowed;
    show();
});
followEvents(
    events => {
        page.events = [...page.events, ...events].slice(-EVENTS_KEPT); // shown with the next answer
        if (events.some(one => one.kind === "pool")) readHost();
    },
    problem => {
        $("events-problem").textContent = problem ? printable(`No new events. ${problem}`) : "";
    },
);
readHost();
refreshForever();
