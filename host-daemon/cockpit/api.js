/* All that the page asks of the host: the daemon's control socket, lscpu, and virsh for a domain's metadata. */

import {hostCpus} from "./model.js";
import {partitionElement} from "./writes.js";

const cockpit = window.cockpit;
const config = cockpit.manifests?.vscaf?.config ?? {};
const SOCKET = config.control_socket ?? "/run/vscaf/control.sock";
const LIBVIRT_URI = config.libvirt_uri ?? "qemu:///system";
const METADATA = "https://vscaf.org/xmlns/partition/1";
const RECONNECT_MS = 1000;
const SILENT_MS = {GET: 5000, POST: 120000}; // a change may wait for guests
const REMEMBERED = 1000; // events: as many as a daemon keeps

function http(superuser, options = {}) {
    return cockpit.http(SOCKET, {superuser, ...options});
}

/* The daemon's own words if it answered (bytes), else why it could not be asked. */
function failure(error, body) {
    try {
        return new Error(JSON.parse(new TextDecoder().decode(body)).error);
    } catch {
        const why =
            {
                "not-found": "The vscaf daemon does not run: systemctl start vscaf",
                "access-denied":
                    "You may not ask the vscaf daemon: get administrative access, or be in its control_read_group.",
            }[error.problem] ?? `The vscaf daemon does not answer: ${error.message ?? error.problem}`;
        return new Error(`${why} (${SOCKET})`);
    }
}

/* The value of an answer. It may end too early: if the daemon dies meanwhile, not every Cockpit reports an error. */
function answer(body) {
    try {
        return JSON.parse(body);
    } catch {
        throw new Error(`The answer of the vscaf daemon was cut off (${SOCKET})`);
    }
}

let clockOffset_ms = 0;

/* The time on the daemon's host, to a second: the browser's clock may differ. */
export const hostTime_ms = () => Date.now() + clockOffset_ms;

/* The answer comes in chunks: without `stream`, Cockpit joins all of them again for each one. */
function request(superuser, options) {
    return new Promise((resolve, reject) => {
        const decoder = new TextDecoder(); // of bytes, because a chunk may end within a letter
        let body = "",
            timer;
        const client = http(superuser, {binary: true});
        const silent_ms = SILENT_MS[options.method];
        const giveUp = () => {
            const rest = options.method === "POST" ? "; it may still do what you asked for" : "";
            reject(new Error(`The vscaf daemon has not answered for ${silent_ms / 1000} s${rest} (${SOCKET})`));
            client.close("timeout");
        };
        const wait = () => {
            window.clearTimeout(timer);
            timer = window.setTimeout(giveUp, silent_ms);
        };
        wait();
        client
            .request({body: "", ...options})
            .response((status, headers) => {
                const told_ms = Date.parse(headers.Date);
                if (Math.abs(told_ms - hostTime_ms()) > 2000) clockOffset_ms = told_ms - Date.now();
            })
            .stream(chunk => {
                wait();
                body += decoder.decode(chunk, {stream: true});
            })
            .then(
                () => resolve(body),
                (error, refusal) => reject(failure(error, refusal)), // `stream` gets no refusals
            )
            .always(() => window.clearTimeout(timer));
    }).then(answer);
}

export const get = path => request("try", {method: "GET", path});

/* Only with administrative access. */
export const post = (path, body) => request("require", {method: "POST", path, body: JSON.stringify(body)});

/* Calls `onEvents` with new events, those first that the daemon still knows. It connects again without end. Calls
 * `onProblem` with why there are none, and with null when there are again. */
export function followEvents(onEvents, onProblem) {
    const seen = new Set();
    let newest = 0; // number of an event
    const isNew = event => {
        const key = `${event.number} ${event.time} ${event.kind}`;
        if (seen.has(key)) return false;
        seen.add(key);
        if (seen.size > 2 * REMEMBERED) seen.delete(seen.values().next().value);
        return true;
    };
    // All are asked for each time. That some are no longer kept is news only if the page has not had them.
    const isNews = event => {
        const news = event.kind === "lost" ? newest > 0 && event.number > newest : isNew(event);
        if (news || event.kind !== "lost") newest = event.number;
        return news;
    };
    const connect = () => {
        const decoder = new TextDecoder(); // of bytes, because a chunk may end within a letter
        let text = "";
        http("try", {binary: true})
            .get("/v1/events", {since: 0, follow: 1})
            .response(status => status === 200 && onProblem(null))
            .stream(chunk => {
                text += decoder.decode(chunk, {stream: true});
                const lines = text.split("\n");
                text = lines.pop();
                onEvents(
                    lines
                        .filter(Boolean)
                        .map(line => JSON.parse(line))
                        .filter(isNews),
                );
            })
            .then(null, (error, refusal) => onProblem(failure(error, refusal).message))
            .always(() => window.setTimeout(connect, RECONNECT_MS));
    };
    connect();
}

/* The host's pCPUs; without lscpu no core and no node is known. */
export async function readHostCpus() {
    try {
        return hostCpus(
            JSON.parse(
                await cockpit.spawn(["lscpu", "--all", "--json", "--extended=CPU,CORE,SOCKET,NODE,ONLINE"], {
                    err: "message",
                }),
            ),
        );
    } catch (error) {
        console.warn("lscpu:", error.message);
        return hostCpus(null);
    }
}

/* Calls `onChange` with whether the user has administrative access (null: not known yet), now and when that changes. */
export function watchAdministrativeAccess(onChange) {
    const permission = cockpit.permission({admin: true});
    const changed = () => onChange(permission.allowed);
    permission.addEventListener("changed", changed);
    changed();
}

/* Why a domain has what it has: the answer of `vscaf explain --json`. It is costly: the command decides again. */
export async function explain(name) {
    return JSON.parse(
        await cockpit.spawn(["vscaf", "explain", "--json", "--socket", SOCKET, "--", name], {
            superuser: "try",
            err: "message",
        }),
    );
}

/* Writes a domain's bounds into its metadata; its other rules there stay. `next`: also for its next start. */
export async function setBounds(domain, minimum, maximum, next) {
    const virsh = (...words) =>
        cockpit.spawn(["virsh", "--connect", LIBVIRT_URI, ...words], {
            superuser: "require",
            err: "message",
            environ: ["LC_ALL=C"],
        });
    const write = async (which, ...inactive) => {
        const text = await virsh("dumpxml", `--domain=${domain.uuid}`, ...inactive);
        const xml = new DOMParser().parseFromString(text, "application/xml");
        const present = xml.getElementsByTagNameNS(METADATA, "partition")[0];
        const others = Object.fromEntries(
            [...(present?.attributes ?? [])]
                .filter(one => !one.name.startsWith("xmlns"))
                .map(one => [one.name, one.value]),
        );
        await virsh(
            "metadata",
            `--domain=${domain.uuid}`,
            `--uri=${METADATA}`,
            "--key=vscaf",
            `--set=${partitionElement(others, minimum, maximum)}`,
            which,
        );
    };
    if (next) await write("--config", "--inactive"); // first: a transient domain refuses it, and nothing is changed
    await write("--live");
}
