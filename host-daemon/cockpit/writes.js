/* What the page may change, and what it says before: pure functions. */

import {NOT_RUNNING, printable} from "./model.js";

/* What may be done with a domain now. `text`: what will happen. */
export function domainActions(domain) {
    const name = printable(domain.name);
    if (domain.state === NOT_RUNNING || (domain.state === "unknown" && !domain.uuid)) return []; // not listed yet
    const bounds = {
        action: "bounds",
        label: "Set bounds …",
        title: `Set the bounds of ${name}`,
        text:
            "The fewest pCPUs that it has while it computes, and the most that it ever has. They are written into " +
            "its libvirt metadata, where they override its table in vscaf.toml; but no bound rises above the " +
            "maximum there. " +
            "vscaf may move CPUs of this and other domains at once.",
    };
    if (["unmanaged", "released"].includes(domain.state))
        return [
            {
                action: "manage",
                label: "Manage …",
                title: `Manage ${name}`,
                text:
                    `vscaf takes over ${name} again: it pins its vCPUs to pCPUs of the pool, and changes its weight ` +
                    "and its number of vCPUs. Other domains may get fewer pCPUs. What it finds is put back when you " +
                    "release the domain.",
            },
            bounds,
        ];
    return [
        {
            action: "release",
            label: "Release …",
            title: `Release ${name}`,
            text:
                `vscaf puts back the vCPUs, pins and weight of ${name} as it found them, and leaves it ` +
                "alone until you choose " +
                "Manage. It may then run on pCPUs of other domains. Its program keeps running.",
        },
        bounds,
    ];
}

/* What will happen if another policy is used. */
export function policyText(status) {
    return (
        `vscaf tries the policy on the present pool and then uses it in place of ${printable(status.policy)}, ` +
        "until the daemon ends or a reload brings another one. Domains may get other pCPUs at once. " +
        "If the policy is refused, nothing changes."
    );
}

export function rollbackText(status) {
    return (
        `vscaf uses the policy ${printable(status.policy_previous)} again in place of ${printable(status.policy)}. ` +
        "Domains may get other pCPUs at once."
    );
}

/* The options of a policy from JSON text; "": none. Error if it is not one object. */
export function policyOptions(text) {
    const wrong = new Error('The options are not a JSON object: write {"key": value}, or leave the field empty.');
    let options;
    try {
        options = JSON.parse(text.trim() || "{}");
    } catch {
        throw wrong;
    }
    if (options === null || typeof options !== "object" || Array.isArray(options)) throw wrong;
    return options;
}

const MOST_CPUS = 65535; // as for the daemon

/* The element for a domain's metadata. `others`: attributes that stay. Error if not 1 <= min <= max <= MOST_CPUS. */
export function partitionElement(others, minimum, maximum) {
    const [min, max] = [minimum, maximum].map(text => (/^\d{1,5}$/.test(text) ? Number(text) : NaN));
    if (!(min >= 1 && max >= min && max <= MOST_CPUS))
        throw new Error(
            `Write whole numbers: the minimum at least 1, the maximum at least the minimum and at most ${MOST_CPUS}.`,
        );
    const escape = text => text.replace(/[&<>"']/g, letter => `&#${letter.codePointAt(0)};`);
    const attributes = Object.entries({...others, min: `${min}`, max: `${max}`});
    return `<partition ${attributes.map(([key, value]) => `${key}="${escape(value)}"`).join(" ")}/>`;
}
