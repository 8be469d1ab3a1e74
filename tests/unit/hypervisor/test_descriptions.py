"""When a domain's description is read again, and what counts until then."""

from dataclasses import replace

from vscaf.hypervisor.libvirt.descriptions import AGE_S, RETRY_S, Descriptions
from vscaf.hypervisor.libvirt.domain_xml import parse_description
from vscaf.values import DomainKey, MetadataRules

KEY, OTHER = DomainKey("uuid-a", 1), DomainKey("uuid-b", 2)
PLAIN = parse_description("<domain type='kvm'/>")


def known(now_s: float = 0.0) -> Descriptions:
    descriptions = Descriptions()
    for key in (KEY, OTHER):
        descriptions.store(key, PLAIN, descriptions.begin(key, now_s))
    return descriptions


def test_read_once_a_run_and_again_after_an_event() -> None:
    descriptions = known()
    assert not descriptions.due(KEY, 1e9)
    assert descriptions.due(DomainKey("uuid-a", 3), 0)
    descriptions.outdate("uuid-a")
    assert descriptions.due(KEY, 0)
    assert not descriptions.due(OTHER, 0)
    assert descriptions.get(KEY) == PLAIN  # the known one counts until a new one is read
    descriptions.outdate_all()
    assert descriptions.due(OTHER, 0)


def test_an_event_while_it_is_read_makes_it_due_again() -> None:
    descriptions = known()
    descriptions.outdate("uuid-a")
    epoch = descriptions.begin(KEY, 0)
    descriptions.outdate("uuid-a")
    descriptions.store(KEY, PLAIN, epoch)
    assert descriptions.due(KEY, 0)


def test_a_failed_reading_is_tried_again_in_a_while_and_said_once() -> None:
    descriptions = Descriptions()
    for number in range(3):
        descriptions.begin(KEY, number * RETRY_S)
        assert descriptions.failed(KEY) == (number == 0)
        assert not descriptions.due(KEY, number * RETRY_S + RETRY_S / 2)
        assert descriptions.due(KEY, (number + 1) * RETRY_S)
    descriptions.store(KEY, PLAIN, descriptions.begin(KEY, 9))
    assert not descriptions.due(KEY, 1e9)
    assert descriptions.failed(KEY)


def test_read_again_with_age_where_not_every_change_is_told() -> None:
    descriptions = known(now_s=100)
    descriptions.events_complete = False
    assert not descriptions.due(KEY, 100 + AGE_S - 1)
    assert descriptions.due(KEY, 100 + AGE_S)


def test_the_last_good_rules_stay_while_those_that_are_there_are_wrong() -> None:
    descriptions = known()
    good = replace(PLAIN, rules=MetadataRules(minimum=2))
    assert descriptions.store(KEY, good, 0)
    assert not descriptions.store(KEY, good, 0)
    assert descriptions.store(KEY, replace(PLAIN, rules_error="wrong"), 0)
    assert descriptions.rules(KEY) == MetadataRules(minimum=2)
    descriptions.store(KEY, PLAIN, 0)
    assert descriptions.rules(KEY) is None


def test_what_is_gone_is_forgotten() -> None:
    descriptions = known()
    descriptions.outdate("uuid-a")
    descriptions.keep({OTHER})
    assert descriptions.get(KEY) is None and KEY not in descriptions
    assert descriptions.get(OTHER) == PLAIN
    assert not descriptions.due(OTHER, 0)
