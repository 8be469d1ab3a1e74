"""The domains that are looked after: who is there, what is read of them, what is asked for them, what is given back.

Calls run in the background; whatever ends is told to the loop, which takes the next steps.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from typing import Any

from vscaf import clock
from vscaf.agentlink.interface import Link, LinkMaker
from vscaf.config import Config
from vscaf.core.backoff import Backoff
from vscaf.core.reconcile.drift import foreign_changes
from vscaf.core.reconcile.state import Affinity, Call, Look, Resume, Standing, Suspend
from vscaf.cpulist import format_cpu_list
from vscaf.domains.bounds import DomainRules, rules_for
from vscaf.domains.containment import Containment
from vscaf.domains.domain import ManagedDomain
from vscaf.domains.inference import infer
from vscaf.domains.journal_writer import Records
from vscaf.domains.pool import HostPool
from vscaf.errors import DomainGone, HypervisorError, VscafError
from vscaf.events import Kind
from vscaf.hypervisor.interface import Hypervisor
from vscaf.journal import LeftAlone
from vscaf.values import DomainKey, DomainSeen, Rules, State

log = logging.getLogger(__name__)

AUDITS = 16  # domains whose pins are read each period where the host does not tell of changes
LAST_TRIES, LAST_TRIES_GAP_S = 20, 0.1  # at the end, for what libvirt refuses or does not answer just now
AUDIT_GAP_S = 1.0  # between single audits where it does: a call that gets lost is found all the same


class Roster:
    """The domains of *pool*. `on_news`: something has happened; `on_change`: so that the host is to be looked at too.
    `links`: makes the channels to guests.

    `domains`: those of the configuration, those that are tagged, and those that an earlier daemon has changed.
    """

    def __init__(  # noqa: PLR0917 (what a loop has)
        self,
        config: Config,
        host: Hypervisor,
        pool: HostPool,
        records: Records,
        on_news: Callable[[], None],
        on_change: Callable[[], None],
        links: LinkMaker,
    ) -> None:
        self.domains: dict[DomainKey, ManagedDomain] = {}
        self._config = config
        self._host = host
        self._pool = pool
        self._records = records
        self.containment = Containment(records.events)
        self._on_news = on_news
        self._on_change = on_change
        self._links = links
        self._seen_any = False
        self._audit_turn = 0
        self._audited_at_s = float("-inf")
        self._rules: dict[str, tuple[Rules | None, DomainRules | None]] = {}
        self._tasks: set[asyncio.Task[object]] = set()
        self._write_wanted = False
        self._write_turn = asyncio.Lock()

    async def close(self) -> None:
        """Ends the links to the guests and what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(one.link.stop() for one in self.domains.values() if one.link is not None))

    def taking_part(self) -> dict[str, ManagedDomain]:
        """By name, those whose pCPUs are decided."""
        return {one.name: one for one in self.domains.values() if one.standing is not None and one.listed}

    async def write_journal(self) -> None:
        """Brings the journal to what it has to say; nothing before the first look: who has ended is not known yet."""
        if self._seen_any:
            await self._records.write_journal(self.domains)

    async def note(self, seen: Iterable[DomainSeen], asked_at_s: float) -> None:
        """Keeps the records of active domains: new ones are linked, ended ones forgotten, others given back.

        asked_at_s: when the look began that has seen them; what was suspended or resumed since may look otherwise.
        """
        self._seen_any = True
        now_s = clock.now_s()
        present: dict[DomainKey, tuple[DomainSeen, DomainRules | None]] = {}
        known, self._rules = self._rules, {}
        for one in seen:
            own, rules = known.get(one.name, (None, None))
            if one.name not in known or own != one.rules:
                rules = rules_for(self._config, one.name, one.rules)
            self._rules[one.name] = (one.rules, rules)
            if rules is not None or one.key in self._records.journal.entries or one.key in self.domains:
                present[one.key] = (one, rules)
        for key, domain in list(self.domains.items()):
            if key not in present or present[key][0].replaces(domain.seen):
                self._forget(key)
        for key, (one, rules) in present.items():
            if key not in self.domains:
                self._appear(one, rules or DomainRules())
            domain = self.domains[key]
            domain.listed = rules is not None
            self.containment.review(domain)
            with self.containment.around(domain, "taking in what was seen of it"):
                self._see(domain, one, rules or domain.rules, now_s)
                if asked_at_s > domain.switched_at_s:
                    self._look_for_waking(domain)
                    infer(domain, now_s, len(self.domains))
        self._give_back_due()
        if any(key not in self.domains for key in self._records.journal.entries):
            await self.write_journal()

    def _forget(self, key: DomainKey) -> None:
        """That run of the domain has ended."""
        gone = self.domains.pop(key)
        self._records.say_no_more(gone.name)
        self._records.events.record(Kind.GONE, gone.name, before=format_cpu_list(gone.held) or None)
        if gone.link is not None:
            self.background(gone.link.stop())

    def _appear(self, seen: DomainSeen, rules: DomainRules) -> None:
        domain = self.domains[seen.key] = ManagedDomain(seen, rules, self._host, None)
        with self.containment.around(domain, "opening the channel to its agent"):
            domain.words.relink(self._link(seen))
        alone = self._records.journal.left_alone.get(seen.key.uuid)
        if alone is not None:
            domain.left_alone, domain.state, domain.spared = alone.why, alone.domain_state, frozenset(alone.spared)
        entry = self._records.journal.entries.get(seen.key)
        if entry is not None and entry.is_of(seen) is not False and alone is None:
            domain.assume(entry, self._pool)
        self._records.events.record(
            Kind.APPEARED, seen.name, vcpus=seen.vcpus, agent_channel=seen.agent_socket is not None
        )

    def _see(self, domain: ManagedDomain, seen: DomainSeen, rules: DomainRules, now_s: float) -> None:
        if seen.agent_socket != domain.seen.agent_socket:  # its channel was plugged, unplugged or moved
            if domain.link is not None:
                self.background(domain.link.stop())
            domain.words.relink(self._link(seen))
            domain.audit_due = True
        if seen.rules_error and seen.rules_error != domain.seen.rules_error:
            self._records.say_once(f"rules {seen.name}", f"domain {seen.name}: {seen.rules_error}", seen.name)
        domain.seen = seen
        domain.booted = domain.booted or seen.booted
        if rules != domain.rules:
            self._records.events.record(Kind.RULES, seen.name, before=domain.rules.words(), after=rules.words())
            domain.rules = rules
            self.renew_ways(domain)
        standing = domain.standing
        if standing is not None and not standing.moving:
            if standing.vcpus != seen.vcpus:
                domain.standing = replace(standing, vcpus=seen.vcpus, affinity=None, vcpus_refused=None)
                self._vcpus_changed(domain, standing.vcpus, seen.vcpus)
            elif standing.vcpus_maximum != seen.vcpus_maximum:
                domain.standing = replace(standing, vcpus_maximum=seen.vcpus_maximum)
        domain.maximum = self._pool.maximum(rules, seen.vcpus_maximum)

    def _look_for_waking(self, domain: ManagedDomain) -> None:
        """Somebody else may have resumed what vscaf has suspended: it is suspended again, or that is respected."""
        standing = domain.standing
        if standing is None or not standing.frozen or domain.seen.paused:
            return
        domain.wake_up()
        why = "somebody resumed it"
        respected = self._config.foreign_changes == "respect"
        what = "respected" if respected else "put right"
        self._records.events.record(Kind.FOREIGN, domain.name, why=f"{why}: {what}")
        if respected:
            domain.set_aside(why)
            self.background(self.leave_alone(domain, State.UNMANAGED, why))

    def _vcpus_changed(self, domain: ManagedDomain, before: int, now: int) -> None:
        """Another number of vCPUs was seen: that was asked for, and may come late, or somebody else did it."""
        asked = domain.vcpus_asked == now
        why = "as was asked for" if asked else "somebody else changed it"
        self._records.events.record(Kind.VCPUS, domain.name, before=before, after=now, why=why)
        if asked or domain.found is None:
            return
        domain.found = replace(domain.found, vcpus=now)  # the count to be put back is theirs
        if self._config.foreign_changes == "respect":
            why = f"somebody else changed its vCPUs from {before} to {now}"
            domain.set_aside(why)
            self.background(self.leave_alone(domain, State.UNMANAGED, why))

    def _give_back_due(self) -> None:
        """Gives back who is neither in the configuration nor tagged by its metadata (any more), or is left alone."""
        for domain in list(self.domains.values()):
            unlisted = not domain.listed and not domain.adopting and not domain.giving_back
            if unlisted and domain.found is None and domain.seen.key not in self._records.journal.entries:
                log.info("domain %s: neither configured nor tagged: it is not managed", domain.name)
                del self.domains[domain.seen.key]
                if domain.link is not None:
                    self.background(domain.link.stop())
            elif unlisted or domain.left_alone:
                self.begin_give_back(domain)

    def begin_give_back(self, domain: ManagedDomain) -> None:
        """In the background: a call on it may take long, and nobody else waits for that. Later, where that failed."""
        known = domain.found is not None or (domain.given_back and domain.seen.key in self._records.journal.entries)
        if known and not domain.giving_back and domain.retry.due(clock.now_s()):
            domain.giving_back = True
            self.background(self._give_back_alone(domain))

    async def _give_back_alone(self, domain: ManagedDomain) -> None:
        try:
            done = await self._give_back_one(domain)
            await self._write_journal_soon()
        finally:
            domain.giving_back = False
        domain.retry = Backoff() if done else domain.retry.failed(clock.now_s())
        alone = self._records.journal.left_alone.get(domain.seen.key.uuid)
        if domain.left_alone and alone is not None:
            domain.enter(alone.domain_state)

    async def _write_journal_soon(self) -> None:
        """As write_journal; many that ask at once are served by one write."""
        self._write_wanted = True
        async with self._write_turn:
            if self._write_wanted:
                self._write_wanted = False
                await self.write_journal()

    def audit(self) -> None:
        """Reads the pins of some domains again, to find what somebody else has changed."""
        settled = [
            domain
            for domain in self.domains.values()
            if domain.standing is not None and domain.standing.affinity is not None and not domain.standing.moving
        ]
        if not settled:
            return
        now_s, count = clock.now_s(), AUDITS
        if self._host.tells_of_tuning:
            count = 1 if now_s - self._audited_at_s >= AUDIT_GAP_S else 0
        if count:
            self._audited_at_s = now_s
        turn = self._audit_turn % len(settled)
        self._audit_turn = turn + count
        chosen = {domain.seen.key: domain for domain in (settled[turn:] + settled[:turn])[:count]}
        chosen |= {domain.seen.key: domain for domain in settled if domain.audit_due}
        for domain in chosen.values():
            domain.audit_due = False
            assert domain.standing is not None  # of the settled
            domain.standing = replace(domain.standing, moving=True)
            self.background(self.carry_out(domain, Look(domain.name), domain.standing))

    def adopt(self, managing: bool) -> None:
        """Reads what domains have that take part from now on. managing: whether any are to."""
        for domain in self.domains.values():
            # Who takes no part is read too where an earlier daemon could not give it back.
            due = self._left_unread(domain)
            takes_part = managing and domain.listed and not domain.left_alone
            wanted = domain.unread and not domain.adopting and (due or takes_part)
            if wanted and domain.retry.due(clock.now_s()):
                domain.adopting = True
                self.background(self._adopt_one(domain))

    def _left_unread(self, domain: ManagedDomain) -> bool:
        """Whether an earlier daemon has changed it, and this one has not read yet what it has."""
        return domain.found is None and not domain.given_back and domain.seen.key in self._records.journal.entries

    async def _adopt_one(self, domain: ManagedDomain) -> None:
        try:
            entry = self._records.journal.entries.get(domain.seen.key)
            departed = self._records.journal.departed.get(domain.seen.key.uuid)
            left = await domain.adopt(entry, departed, self._pool)
            domain.retry = Backoff()
            self._records.say_no_more(domain.name)
            if domain.left_alone:  # since before, or meanwhile
                domain.set_aside(domain.left_alone)
            if left is not None and left is entry:
                where = "rests" if domain.standing and domain.standing.resting else format_cpu_list(domain.held)
                self._records.events.record(Kind.ADOPTED, domain.name, after=where, why="as an earlier daemon left it")
        except HypervisorError as error:
            domain.retry = domain.retry.failed(clock.now_s())
            if domain.standing is None and domain.found is None and not domain.left_alone:
                error = type(error)(f"{error}: until that can be read it may compute on pCPUs of others")
                domain.enter(State.UNKNOWN)
            self._refused(domain, error)
        except Exception as error:  # noqa: BLE001  it is the domain's alone: see domains/containment.py
            domain.retry = domain.retry.failed(clock.now_s())
            self.containment.failed(domain, "reading what it has", error)
        finally:
            domain.adopting = False
        self._on_change()

    def renew_ways(self, domain: ManagedDomain) -> None:
        """Brings changed rules or pCPUs into how the domain is treated."""
        if domain.standing is not None and domain.found is not None:
            ways = self._pool.ways(domain.rules, domain.found, domain.seen.accelerated)
            domain.standing = replace(domain.standing, ways=ways)

    async def carry_out(self, domain: ManagedDomain, call: Call, before: Standing) -> None:
        """Makes a call; what comes of it is seen at the next step."""
        adoptions = domain.adoptions
        try:
            if isinstance(call, Suspend) and not await self._written_down(domain):
                domain.not_begun(call, adoptions)
                self._on_news()
                return
            read = await domain.carry_out(call, adoptions)
        except HypervisorError as error:
            self._refused(domain, error)
            if isinstance(call, Suspend) and not domain.ours:  # it is somebody else's, and no later daemon's to resume
                await self.write_journal()
        except Exception as error:  # noqa: BLE001  it is the domain's alone: see domains/containment.py
            self.containment.failed(domain, f"a call to {type(call).__name__.lower()}", error)
        else:
            self._records.say_no_more(domain.name)
            self._say_switched(domain, call, before)
            if read is not None:
                vcpus, affinity = read
                with self.containment.around(domain, "hearing its guest"):
                    domain.hear()  # which vCPUs its CPUs are is known now
                if vcpus != before.vcpus:
                    self._vcpus_changed(domain, before.vcpus, vcpus)
                if before.affinity is not None:
                    self._compare(domain, before.affinity, affinity)
        self._on_news()

    async def _written_down(self, domain: ManagedDomain) -> bool:
        """Whether the journal says that the domain is suspended: whoever comes after a crash has to resume it."""
        await self.write_journal()
        entry = self._records.journal.entries.get(domain.seen.key)
        return entry is not None and entry.suspended

    def _say_switched(self, domain: ManagedDomain, call: Call, before: Standing) -> None:
        if isinstance(call, Suspend) and domain.ours:
            held = format_cpu_list(before.claim) or None
            self._records.events.record(Kind.SUSPENDED, domain.name, before=held, why=domain.waiting)
        elif isinstance(call, Resume) and not domain.ours:
            self._records.events.record(Kind.RESUMED, domain.name, after=format_cpu_list(before.claim) or None)

    def _refused(self, domain: ManagedDomain, error: HypervisorError) -> None:
        if isinstance(error, DomainGone):
            log.info("domain %s: went away while it was being changed", domain.name)
            self._on_change()
        else:
            self._records.say_once(domain.name, str(error), domain.name)

    def _compare(self, domain: ManagedDomain, known: Affinity, read: Affinity) -> None:
        """Somebody else's changes are put right by the next step, or respected: then the domain is not managed."""
        changes = foreign_changes(known, read)
        if not changes or domain.standing is None:
            return
        words = "; ".join(changes.values())
        respected = self._config.foreign_changes == "respect"
        what = "respected" if respected else "put right"
        self._records.events.record(Kind.FOREIGN, domain.name, why=f"somebody changed {words}: {what}")
        if respected:
            why = f"somebody changed {words}"
            domain.set_aside(why)  # before the next step would put it right
            self.background(self.leave_alone(domain, State.UNMANAGED, why, frozenset(changes)))

    async def leave_alone(
        self, domain: ManagedDomain, state: State, why: str, but: frozenset[str] = frozenset()
    ) -> bool:
        """Gives the domain back and manages it no more until manage(). False: something could not be put back.

        VscafError where a release cannot be written down: then nothing is changed. What somebody else did is respected
        all the same, as long as this daemon lives.
        """
        if state != State.RELEASED:
            domain.set_aside(why)
            domain.spared = but
        one = LeftAlone(uuid=domain.seen.key.uuid, state=state, why=why, spared=sorted(but))
        refused = await self._records.write_left_alone(one.uuid, one)
        if refused and state == State.RELEASED:
            self._records.events.record(Kind.REFUSED, domain.name, why=f"not released: {refused}")
            raise VscafError(f"domain {domain.name}: is not released: {refused}")
        if refused:
            why += f"; until the daemon ends: {refused}"
        domain.set_aside(why)
        domain.spared = but
        if self._left_unread(domain):
            await self._adopt_one(domain)
        done = not await self.give_back([domain]) and not self._left_unread(domain)
        if domain.left_alone:  # still
            domain.enter(state)
        self._records.events.record(Kind.RELEASED if state == State.RELEASED else Kind.UNMANAGED, domain.name, why=why)
        self._on_change()
        return done

    async def manage(self, domain: ManagedDomain) -> None:
        """Undoes leave_alone. VscafError where that cannot be written down: then nothing is changed."""
        if refused := await self._records.write_left_alone(domain.seen.key.uuid, None):
            self._records.events.record(Kind.REFUSED, domain.name, why=f"still left alone: {refused}")
            raise VscafError(f"domain {domain.name}: is still left alone: {refused}")
        domain.left_alone, domain.state, domain.spared = "", State.UNMANAGED, frozenset()
        domain.retry = Backoff()
        self._records.events.record(Kind.MANAGED, domain.name)
        self._on_change()

    async def give_back(self, domains: Iterable[ManagedDomain]) -> list[str]:
        """Puts domains back as they were found; names of those that could not be. They are not managed any more.

        A domain that has ended needs nothing put back. One that could not be keeps its entry in the journal.
        """
        changed = [domain for domain in domains if domain.found is not None]
        outcomes = await asyncio.gather(*(self._give_back_one(domain) for domain in changed))
        left = {domain.seen.key: domain.name for domain, done in zip(changed, outcomes, strict=True) if not done}
        left = await self._still_running(left)
        await self.write_journal()
        return sorted(left.values())

    async def _still_running(self, left: dict[DomainKey, str]) -> dict[DomainKey, str]:
        """Of the runs that could not be given back those that have not ended, for all that is known."""
        if not left:
            return left
        try:
            active = {one.key for one in await self._host.observe()}
        except HypervisorError as error:
            log.error("whether the rest still runs is unknown (%s); the journal keeps what was found", error)
            return left
        for key in (left.keys() - active) & self.domains.keys():
            self._forget(key)
        return {key: name for key, name in left.items() if key in active}

    async def _give_back_one(self, domain: ManagedDomain) -> bool:
        try:
            anything = await domain.give_back(self._config.deadline_ms / 1000)
        except HypervisorError as error:
            self._refused(domain, error)
            return False
        except Exception as error:  # noqa: BLE001  it is the domain's alone: see domains/containment.py
            self.containment.failed(domain, "giving it back", error)
            return False
        if anything:
            domain.enter(State.UNMANAGED)
            if domain.seen.key in self._records.journal.entries:
                self._records.events.record(Kind.GIVEN_BACK, domain.name)
        return True

    async def give_all_back(self) -> list[str]:
        """Puts everything back, also what an earlier daemon has changed and this one has not read yet; as give_back."""
        if not self._seen_any:
            asked_at_s = clock.now_s()
            try:
                await self.note(await self._host.observe(), asked_at_s)
            except HypervisorError as error:
                log.error("what domains there are is unknown (%s); the journal keeps what was found", error)
        unread = [domain for domain in self.domains.values() if self._left_unread(domain)]
        await asyncio.gather(*(self._adopt_one(domain) for domain in unread))
        left = set(await self.give_back(self.domains.values()))
        for _ in range(LAST_TRIES):
            if not left:
                break
            await asyncio.sleep(LAST_TRIES_GAP_S)
            left = set(await self.give_back(self.domains.values()))
        not_read = {domain.seen.key: domain.name for domain in unread if not domain.given_back}
        left |= set((await self._still_running(not_read)).values())
        if not self._seen_any:
            left |= {entry.name for entry in self._records.journal.entries.values()}
        await self.write_journal()
        return sorted(left)

    def _link(self, seen: DomainSeen) -> Link | None:
        return self._links(seen, lambda: self._heard(seen.key))

    def _heard(self, key: DomainKey) -> None:
        """A guest said something: demand is looked at, an acknowledgement takes the next step."""
        domain = self.domains.get(key)
        if domain is None:
            return
        fresh = False
        with self.containment.around(domain, "hearing its guest"):
            link = domain.link
            if link is not None and link.fault is not None:
                error, link.fault = link.fault, None
                raise error
            fresh = domain.words.news()
            domain.hear()
        (self._on_change if fresh else self._on_news)()

    def hear_all(self) -> None:
        """Brings into all standings what guests have said, and who has fallen silent."""
        for domain in self.domains.values():
            with self.containment.around(domain, "hearing its guest"):
                domain.hear()

    def background(self, work: Coroutine[Any, Any, object]) -> None:
        """Runs *work* beside everything else; an error that nobody has thought of is logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("please report this: %r", error, exc_info=error)
        self._on_news()
