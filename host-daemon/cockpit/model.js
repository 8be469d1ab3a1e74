/* What the page shows, as plain values: pure functions of the daemon's status, its events and the host's pCPUs.
 *
 * Words, marks and figures are those of `vscaf top`. An unknown value is "?". "-" means that there is none: the domain
 * does not run, it has no pCPU, or its agent reports that no program computes.
 */

export const UNKNOWN = "?",
    NONE = "-";
export const NOT_RUNNING = "not running";
const MARKS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const NO_MARK = "#";
const BLOCKS = "▁▂▃▄▅▆▇█";
const LONGEST_CURVE = 8; // so many sizes of a speedup curve are drawn in a cell
export const COLOURS = 8;
export const KINDS = {free: ".", shared: "*", reserve: "-", offline: "!"};
const WARNINGS = ["unknown", "refused", "foreign", "unmanaged", "fault"];
export const PARTS = ["useful", "inflation", "fork", "dispatch", "barrier", "steal"];

/* Text without control characters and without those that change the direction of what follows: guests choose names. */
export function printable(text) {
    return String(text).replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu, "\ufffd");
}

/* The CPU numbers in the kernel's list format ("0-3,8"), rising. null and "": none. */
export function parseCpuList(text) {
    const cpus = new Set();
    for (const part of (text || "").split(",").filter(one => one.trim())) {
        const found = /^\s*(\d+)(?:-(\d+))?\s*$/.exec(part);
        const low = Number(found?.[1]),
            high = Number(found?.[2] ?? found?.[1]);
        if (!found || low > high || high >= 65536)
            throw new Error(`${part} in CPU list ${text} is not N or N-M below 65536`);
        for (let cpu = low; cpu <= high; cpu++) cpus.add(cpu);
    }
    return [...cpus].sort((a, b) => a - b);
}

export function formatCpuList(cpus) {
    const ranges = [];
    for (const cpu of [...cpus].sort((a, b) => a - b)) {
        const last = ranges.at(-1);
        if (last && cpu === last[1] + 1) last[1] = cpu;
        else ranges.push([cpu, cpu]);
    }
    return ranges.map(([low, high]) => (low === high ? `${low}` : `${low}-${high}`)).join(",");
}

/* The host's pCPUs from the JSON of `lscpu --extended`. Without it nothing is known: no core and no node. */
export function hostCpus(lscpu) {
    const host = {online: new Set(), nodeOf: new Map(), coreOf: new Map()};
    for (const one of lscpu?.cpus ?? []) {
        const cpu = Number(one.cpu);
        if (one.online === false || one.online === "no") continue;
        host.online.add(cpu);
        if (one.node !== null && one.node !== undefined && one.node !== "-") host.nodeOf.set(cpu, Number(one.node));
        if (one.core !== null && one.core !== undefined && one.core !== "-")
            host.coreOf.set(cpu, `${one.socket}/${one.core}`);
    }
    return host;
}

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

/* A letter and a colour for each domain that has pCPUs, in order of names. "#" for all after the last letter. */
export function marks(domains) {
    const names = domains
        .filter(one => one.partition)
        .map(one => one.name)
        .sort(compare);
    return new Map(names.map((name, index) => [name, {mark: MARKS[index] ?? NO_MARK, colour: index % COLOURS}]));
}

/* The map: for each NUMA node its cores, for each core its pCPUs. Cells have `cpu`, `mark`, `kind` ("domain", "shared",
 * "free", "reserve" or "offline"), and for one domain its `domain` and `colour`. */
export function cpuMap(status, host) {
    const letters = marks(status.domains),
        pool = new Set(parseCpuList(status.pool)),
        holder = new Map();
    for (const domain of status.domains)
        for (const cpu of parseCpuList(domain.partition)) holder.set(cpu, holder.has(cpu) ? null : domain.name);
    const cell = cpu => {
        const name = holder.get(cpu);
        if (name) return {cpu, kind: "domain", domain: name, ...letters.get(name)};
        const kind =
            name === null
                ? "shared"
                : host.online.size && !host.online.has(cpu)
                  ? "offline"
                  : pool.has(cpu)
                    ? "free"
                    : "reserve";
        return {cpu, kind, mark: KINDS[kind]};
    };
    const nodes = new Map();
    for (const cpu of [...new Set([...pool, ...parseCpuList(status.reserve), ...holder.keys()])].sort(
        (a, b) => a - b,
    )) {
        const node = host.nodeOf.get(cpu) ?? UNKNOWN,
            core = host.coreOf.get(cpu) ?? `cpu ${cpu}`;
        const cores = nodes.get(node) ?? new Map();
        nodes.set(node, cores);
        cores.set(core, [...(cores.get(core) ?? []), cell(cpu)]);
    }
    const order = node => (node === UNKNOWN ? Infinity : node);
    return [...nodes]
        .sort(([a], [b]) => compare(order(a), order(b)))
        .map(([node, cores]) => ({
            node,
            cores: [...cores.values()],
            label: `node ${node}`,
            spoken: spokenNode(node, [...cores.values()].flat()),
        }));
}

function spokenNode(node, cells) {
    const held = new Map();
    for (const cell of cells) {
        const who = cell.kind === "domain" ? printable(cell.domain) : cell.kind;
        held.set(who, [...(held.get(who) ?? []), cell.cpu]);
    }
    return `NUMA node ${node}: ` + [...held].map(([who, cpus]) => `pCPUs ${formatCpuList(cpus)} ${who}`).join(", ");
}

/* The programs that run in a domain, those with the largest team first, and their parts of thread time (0 to 1): means
 * over the programs that report them, weighted by team size; null: no program reports it. */
export function figures(domain) {
    const programs = (domain.processes ?? [])
        .filter(one => one.running)
        .sort((a, b) => b.team - a.team || compare(a.name, b.name) || a.pid - b.pid);
    const isKnown = (one, part) =>
        typeof one.decomposition?.[part] === "number" &&
        // It is 0 while no speedup above one CPU is known.
        (part !== "inflation" || one.decomposition[part] > 0 || one.points.some(point => point.p > 1));
    const mean = part => {
        const known = programs.filter(one => isKnown(one, part));
        const threads = known.reduce((sum, one) => sum + Math.max(1, one.team), 0);
        return threads
            ? known.reduce((sum, one) => sum + Math.max(1, one.team) * one.decomposition[part], 0) / threads
            : null;
    };
    return {programs, steal: mean("steal"), idle: mean("idle_rate"), inflation: mean("inflation")};
}

/* The known points of a program's speedup curve above one CPU, in order of size. */
export const measured = program => program.points.filter(one => one.p > 1).sort((a, b) => a.p - b.p);

/* The point at its team size, else at the next smaller known size, else at the smallest. null: nothing is known. */
export function speedup(program) {
    const points = measured(program);
    return points.filter(one => one.p <= program.team).at(-1) ?? points[0] ?? null;
}

/* What is shown if the daemon names no pCPUs. It does not know those of a domain that libvirt does not tell of. */
const noPcpus = domain =>
    domain.state === "unknown" && (domain.partition === null || domain.partition === undefined) ? UNKNOWN : NONE;

function partitionByNode(domain, host) {
    const byNode = new Map();
    for (const cpu of parseCpuList(domain.partition)) {
        const node = host.nodeOf.get(cpu) ?? UNKNOWN;
        byNode.set(node, [...(byNode.get(node) ?? []), cpu]);
    }
    return [...byNode].map(([node, cpus]) => `${node}:${formatCpuList(cpus)}`).join(" ") || noPcpus(domain);
}

const runs = (domain, value, digits) =>
    typeof value === "number" ? value.toFixed(digits) : domain.state === NOT_RUNNING ? NONE : UNKNOWN;

/* What is shown if no program has a figure. Without a report nobody knows whether programs compute. */
const noFigure = (domain, known) =>
    domain.state === NOT_RUNNING || (!known.programs.length && typeof domain.report_age_s === "number")
        ? NONE
        : UNKNOWN;

const part = (domain, known, value) => (value !== null ? `${Math.round(100 * value)}%` : noFigure(domain, known));

/* The columns of the table. `key`: what rows are sorted by; null sorts last, in both directions. */
export const COLUMNS = [
    {name: "domain", text: one => printable(one.name), key: one => one.name},
    {name: "state", text: one => one.state + (one.paused && !one.suspended ? ", paused" : ""), key: one => one.state},
    {
        name: "CPUs",
        number: true,
        text: one => (one.allocation === null || one.allocation === undefined ? noPcpus(one) : `${one.allocation}`),
        key: one => one.allocation,
    },
    {
        name: "node:pCPUs",
        text: (one, _, host) => partitionByNode(one, host),
        key: one => parseCpuList(one.partition)[0] ?? null,
    },
    {name: "demand", number: true, text: one => runs(one, one.demand, 0), key: one => one.demand},
    {name: "busy", number: true, text: one => runs(one, one.busy_cpus, 2), key: one => one.busy_cpus},
    {name: "steal", number: true, text: (one, known) => part(one, known, known.steal), key: one => figures(one).steal},
    {name: "idle", number: true, text: (one, known) => part(one, known, known.idle), key: one => figures(one).idle},
    {
        name: "inflation",
        number: true,
        text: (one, known) => part(one, known, known.inflation),
        key: one => figures(one).inflation,
    },
    {name: "speedup", number: true, text: speedupText, key: one => figures(one).programs.map(speedup)[0]?.speedup},
];

function speedupText(domain, known) {
    if (!known.programs.length) return noFigure(domain, known);
    const point = speedup(known.programs[0]);
    if (!point) return UNKNOWN;
    const heights = [1, ...measured(known.programs[0]).map(one => one.speedup)].slice(0, LONGEST_CURVE),
        top = Math.max(...heights);
    const drawn = heights.map(height => BLOCKS[Math.max(0, Math.min(7, Math.round((8 * height) / top) - 1))]).join("");
    return `${point.speedup.toFixed(2)} on ${point.p} ${drawn}`;
}

/* The table's rows, in order. `words`: each must be in the domain's name, state or agent's state. `descending` null:
 * the column's own order, the largest number first. */
export function rows(status, host, {column = "domain", descending = null, words = ""} = {}) {
    const by = COLUMNS.find(one => one.name === column),
        letters = marks(status.domains);
    const down = descending ?? Boolean(by.number);
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = status.domains.filter(one => {
        const text = `${one.name} ${one.state} ${one.agent ?? ""}`.toLowerCase();
        return wanted.every(word => text.includes(word));
    });
    const order = (a, b) => {
        const [left, right] = [by.key(a) ?? null, by.key(b) ?? null];
        if (left === null || right === null) return (left === null) - (right === null) || compare(a.name, b.name);
        return (down ? -1 : 1) * compare(left, right) || compare(a.name, b.name);
    };
    return shown.sort(order).map(domain => {
        const known = figures(domain);
        return {
            name: domain.name,
            ...(letters.get(domain.name) ?? {mark: "", colour: null}),
            cells: COLUMNS.map(one => one.text(domain, known, host)),
        };
    });
}

const INTERVAL_MS = 1000,
    INTERVAL_PER_DOMAIN_MS = 5;

/* How long to wait before the daemon is asked again. An answer costs the browser up to 0.25 ms a domain, so this bounds
 * its CPU time to 5% of a core, about. */
export function interval_ms(status) {
    return Math.max(INTERVAL_MS, INTERVAL_PER_DOMAIN_MS * (status?.domains?.length ?? 0));
}

/* The daemon in short facts, and what is wrong. */
export function heading(status) {
    const pool = parseCpuList(status.pool),
        held = new Set(status.domains.flatMap(one => parseCpuList(one.partition)));
    const facts = [
        ["policy", printable(status.policy)],
        ["pool", `${status.pool}: ${pool.filter(cpu => held.has(cpu)).length} of ${pool.length} pCPUs held`],
        ["domains", `${status.domains.length}`],
        ["transitions", `${status.transitions}`],
    ];
    if (status.exploring.length) facts.push(["exploring", printable(status.exploring.join(", "))]);
    const warnings = [];
    if (status.unknown) warnings.push("libvirt does not answer: all values are old.");
    if (status.managing === false) warnings.push("The policy only observes: vscaf changes nothing.");
    if (status.violations.length)
        warnings.push(`Broken laws, please report: ${printable(status.violations.join("; "))}`);
    return {facts, warnings};
}

/* What is said about one domain: sentences, and its programs with their speedup curves. */
export function detail(domain, weightsCount = true) {
    const sentences = [`${domain.state}${domain.why ? `: ${domain.why}` : ""}`];
    if (domain.state !== NOT_RUNNING) {
        const age =
            typeof domain.report_age_s === "number" ? `report ${domain.report_age_s.toFixed(0)} s old` : "no report";
        const stolen = typeof domain.steal_s === "number" ? `${domain.steal_s.toFixed(1)} s` : "unknown";
        sentences.push(
            `${domain.vcpus ?? UNKNOWN} of ${domain.vcpus_maximum ?? UNKNOWN} vCPUs, ` +
                `agent ${domain.agent ?? UNKNOWN}, ${age}`,
        );
        sentences.push(`predicted speedup ${domain.speedup?.toFixed(2) ?? "unknown"}, steal so far ${stolen}`);
        sentences.push(rulesText(domain.rules, domain, weightsCount));
    }
    return {
        name: printable(domain.name),
        sentences: sentences.map(printable),
        programs: figures(domain).programs.map(program),
    };
}

/* The bounds, and the rules that differ from the defaults. */
function rulesText(rules, domain, weightsCount) {
    if (!rules) return "bounds unknown";
    const texts = [`bounds ${rules.minimum ?? 1} to ${rules.maximum ?? domain.vcpus_maximum ?? UNKNOWN} pCPUs`];
    if ((rules.weight ?? 1) !== 1)
        texts.push(`weight ${rules.weight}${weightsCount ? "" : ", which the policy ignores"}`);
    if (rules.priority) texts.push(`priority ${rules.priority}`);
    if (rules.rest) texts.push(`at rest: ${rules.rest}`);
    return texts.join(", ");
}

function program(one) {
    const points = measured(one),
        top = Math.max(1, ...points.map(point => point.speedup));
    const parts = PARTS.filter(name => one.decomposition?.[name] >= 0.01).map(
        name => `${name} ${Math.round(100 * one.decomposition[name])}%`,
    );
    return {
        title: printable(`${one.name}: team ${one.team}, ${one.malleable}`),
        parts: one.decomposition ? parts.join(", ") : "thread time unknown",
        points: points.map(point => ({
            label: `S(${point.p})`,
            text: `${point.speedup.toFixed(2)} ±${(1.96 * point.standard_error).toFixed(2)}`,
            share: Math.max(0, Math.min(1, point.speedup / top)),
        })),
    };
}

/* An event as a line of the list. */
export function decision(event) {
    const side = value => (value === null || value === undefined || value === "" ? NONE : printable(value));
    const change = [event.from, event.to].some(one => one !== null && one !== undefined);
    return {
        time: event.time.slice(11, 19),
        kind: printable(event.kind),
        domain: printable(event.domain ?? ""),
        change: change ? `${side(event.from)} → ${side(event.to)}` : "",
        why: printable(event.why ?? ""),
        warning: WARNINGS.includes(event.kind),
    };
}

/* What a domain has from an event on, as `vscaf plot` reads it: its pCPUs; []: vscaf does not manage it any more.
 * null: a long list was cut, so it is not known. undefined: the event does not say. */
function pcpusFrom(event) {
    if (["gone", "given-back", "released", "unmanaged"].includes(event.kind)) return [];
    if (!["allocation", "adopted"].includes(event.kind)) return undefined;
    if (["rest", "rests"].includes(event.to)) return [];
    try {
        return parseCpuList(event.to);
    } catch {
        return null;
    }
}

/* What is known of each domain's pCPUs, from rising times on (`since_ms`). `cpus` null: unknown. */
function changesOf(status, events) {
    const changes = new Map(),
        unknown = since_ms => ({since_ms, cpus: null});
    const forgotten = events.length > 0 && events[0].number > 1;
    let gap_ms = forgotten ? -Infinity : null, // since when events may be missing; null: none is
        known_ms = forgotten ? null : -Infinity, // since when none is missing; null: since the next event
        before_ms = -Infinity; // the time of the event before
    for (const event of events) {
        if (event.kind === "lost") {
            gap_ms ??= before_ms;
            known_ms = null;
            for (const one of changes.values()) one.push(unknown(before_ms));
            continue;
        }
        before_ms = Date.parse(event.time);
        if (known_ms === null) {
            known_ms = before_ms;
            for (const one of changes.values()) one.push(unknown(known_ms));
        }
        const cpus = event.domain === null || event.domain === undefined ? undefined : pcpusFrom(event);
        if (cpus === undefined) continue;
        if (!changes.has(event.domain)) changes.set(event.domain, gap_ms === null ? [] : [unknown(gap_ms)]);
        changes.get(event.domain).push({since_ms: before_ms, cpus});
    }
    // What a domain has now it has since its last event, or since no event is missing.
    for (const {name, partition} of status.domains.filter(one => one.partition)) {
        const last = changes.get(name)?.at(-1);
        if (!last)
            changes.set(name, [
                ...(gap_ms === null ? [] : [unknown(gap_ms)]),
                {since_ms: known_ms ?? Infinity, cpus: parseCpuList(partition)},
            ]);
        else if (known_ms !== null) last.cpus ??= parseCpuList(partition);
    }
    return changes;
}

/* A lane for each domain that had pCPUs between `begin_ms` and `end_ms`, with segments of constant allocation. `known`
 * false: while events about the domain may be missing, or after one whose list was cut. `from`, `to`: 0 to 1 of the
 * lane. */
export function timeline(status, events, begin_ms, end_ms) {
    const at = time_ms => Math.max(0, Math.min(1, (time_ms - begin_ms) / (end_ms - begin_ms)));
    const letters = marks(status.domains),
        most = parseCpuList(status.pool).length;
    const shown = [];
    for (const [name, changes] of [...changesOf(status, events)].sort(([a], [b]) => compare(a, b))) {
        const segments = changes
            .filter((one, index) => one.cpus !== null || changes[index - 1]?.cpus !== null)
            .map((one, index, kept) => ({
                from: at(one.since_ms),
                to: at(kept[index + 1]?.since_ms ?? end_ms),
                known: one.cpus !== null,
                count: one.cpus?.length ?? 0,
                cpus: formatCpuList(one.cpus ?? []),
            }))
            .filter(one => one.to > one.from && (one.count || !one.known));
        if (segments.length)
            shown.push({
                name,
                label: printable(name),
                colour: letters.get(name)?.colour ?? null,
                most,
                segments,
                spoken: spokenLane(name, segments),
            });
    }
    return shown;
}

function spokenLane(name, segments) {
    const last = segments.at(-1);
    const count = last.known ? `${last.count} pCPUs` : "unknown pCPUs";
    const now = last.to === 1 ? `${count} now` : "no pCPU now";
    const allocations = segments.length === 1 ? "1 allocation" : `${segments.length} allocations`;
    return `${printable(name)}: ${now}, ${allocations} in this time`;
}

const ANSWERS = [
    ["now", "What it has"],
    ["asked", "What it asks for"],
    ["rules", "Its rules"],
    ["weighed", "What the policy weighs"],
    ["held_back", "What holds it back"],
    ["would_change", "What would change it"],
];

/* The answer of `vscaf explain --json` as questions with sentences. A part about which nothing is known is left out. */
export function explanation(made) {
    return ANSWERS.filter(([part]) => made[part]?.length).map(([part, title]) => ({
        title,
        sentences: made[part].map(printable),
    }));
}
