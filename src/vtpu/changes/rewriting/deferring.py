"""Reads of arrays in a loop put off: shown every so many steps, or read behind the loop.

What is read and only shown is read where it is shown, `if step % 50 == 0:`. What is collected, `losses.append(float(loss))`,
is collected as arrays and read behind the loop. A name that held a number and holds an array now is
followed to every place in the loop that reads it; where one of them needs the number, nothing is done.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from itertools import chain

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.edits import Edit, Replace
from vtpu.changes.rewriting.placing import before, behind, under, without
from vtpu.changes.source.loops import (
    Counter,
    Loop,
    counter_of,
    loops_around,
    scope_of,
    statement_of,
)
from vtpu.changes.source.names import bound, fresh, is_load, loaded, loads_of
from vtpu.changes.source.reads import Read, is_pure, only_shows, read_in, reads_within
from vtpu.changes.source.statements import block_of, stands_alone

EVERY = 50
_LARGEST_KEPT = 4096  # bytes: of each step's array that is kept until the loop ends


class CannotDefer(Exception):
    """Why a read has to stay where it is."""


@dataclass(kw_only=True)
class Deferring:
    """The edits that put off reads of one loop, as they are found. `adds_up`: numbers are summed on the device
    instead, in its precision. `shows_less`: some are shown every `EVERY` steps.
    """

    file: SourceFile
    loop: Loop
    largest_bytes: int
    edits: list[Edit] = field(default_factory=list)
    shown: dict[ast.stmt, list[str]] = field(default_factory=dict)
    last: dict[str, None] = field(default_factory=dict)
    adds_up: bool = False
    done: set[ast.stmt] = field(default_factory=set)

    def put_off(self, statement: ast.stmt) -> None:
        """Puts off what a statement reads.

        Raises:
            CannotDefer: something in the loop needs the value at once.
        """
        if statement in self.done or self._is_rare(statement):
            return
        self.done.add(statement)
        if not stands_alone(self.file, statement):
            raise CannotDefer("its line holds more than one statement")
        if only_shows(self.file, statement):
            self.shown.setdefault(statement, [])
        elif (collected := _collected(statement)) is not None:
            self._collect(*collected)
        elif isinstance(statement, ast.AugAssign):
            self._add_up(statement)
        elif isinstance(statement, ast.Assign):
            self._assign(statement)
        else:
            raise CannotDefer("the loop goes on by what it reads")

    def copy(self) -> Deferring:
        """Another one that has found the same."""
        return replace(
            self,
            edits=[*self.edits],
            shown={statement: [*first] for statement, first in self.shown.items()},
            last={**self.last},
            done={*self.done},
        )

    def all_edits(self) -> list[Edit]:
        """Every edit."""
        counter = counter_of(self.file, self.loop) if self.shown else None
        if self.shown and counter is None:
            raise CannotDefer("nothing counts the turns of its loop")
        edits = [*self.edits, *chain.from_iterable(self._under(g, counter) for g in self._groups())]
        if self.last:
            edits.append(behind(self.file, self.loop, *self.last))
        return [*(counter.edits if counter else ()), *edits]

    def _collect(self, container: ast.expr, value: ast.expr) -> None:
        read = read_in(self.file, value)
        if read is None:
            raise CannotDefer("what it collects is more than what it reads")
        self._keep(container, read)
        self._replace(value, self.file.source(read.array))

    def _keep(self, container: ast.expr, read: Read) -> None:
        """A container of numbers is one of arrays until the loop ends."""
        name = self.file.source(container)
        self._check_kept(container, name)
        if not read.can_repeat and not self._begins_empty(name):
            raise CannotDefer(f"{name} may hold values from before the loop")
        one = fresh(self.file, "one")
        self.last[f"{name}[:] = [{read.of(one)} for {one} in {name}]"] = None

    def _check_kept(self, container: ast.expr, name: str) -> None:
        if self.largest_bytes > _LARGEST_KEPT:
            raise CannotDefer("it collects arrays that are too large to be kept on the device")
        uses = [
            n for n in ast.walk(self.loop) if isinstance(n, ast.expr) and ast.unparse(n) == name
        ]
        if any(not self._is_append_or_length(n) for n in uses):
            raise CannotDefer(f"{name} is used in the loop")
        if any(isinstance(n, ast.Return | ast.Yield | ast.YieldFrom) for n in ast.walk(self.loop)):
            raise CannotDefer(f"the loop can be left before {name} is read")
        if not self._is_list(name) or loaded([container]) & bound([self.loop]):
            raise CannotDefer(f"{name} is not known to be a list")

    def _add_up(self, statement: ast.AugAssign) -> None:
        if not isinstance(statement.target, ast.Name) or not is_pure(self.file, statement.value):
            raise CannotDefer("the loop goes on by what it reads")
        self.adds_up = True
        for read in reads_within(self.file, statement.value):
            self._replace(read.node, self.file.source(read.array))
        self._hold(statement.target.id, f"float({statement.target.id})", statement)

    def _assign(self, statement: ast.Assign) -> None:
        target = statement.targets[0]
        read = read_in(self.file, statement.value)
        if read is not None and isinstance(target, ast.Name) and len(statement.targets) == 1:
            self._assign_array(statement, target.id, read)
        elif is_pure(self.file, statement.value) and (names := _names(statement)):
            self._assign_value(statement, names)
        else:
            raise CannotDefer("the loop goes on by what it reads")

    def _assign_array(self, statement: ast.Assign, name: str, read: Read) -> None:
        """`value = float(loss)` holds the array until it is shown or the loop ends."""
        if self.file.source(read.array) == name:
            self.edits.append(without(self.file, statement))
        else:
            self._replace(statement.value, self.file.source(read.array))
        self._hold(name, read.of(name), statement, can_repeat=read.can_repeat)

    def _assign_value(self, statement: ast.Assign, names: set[str]) -> None:
        """What is computed from what was read: where it is shown, or once behind the loop."""
        users = self._users(names, statement)
        if users and all(only_shows(self.file, u) for u in users) and not self._is_needed(names):
            for one in (statement, *users):
                self.shown.setdefault(one, [])
        elif not users and self._can_wait(statement, names):
            self.edits.append(without(self.file, statement))
            self.last[self.file.source(statement)] = None
        else:
            raise CannotDefer("the loop goes on by what it reads")

    def _hold(
        self, name: str, reading: str, statement: ast.stmt, *, can_repeat: bool = True
    ) -> None:
        """A name holds an array now: what becomes of it in the loop, and behind."""
        users = self._users({name}, statement)
        if not can_repeat and len(users) > 1:
            raise CannotDefer(f"{name} is used more than once")
        for user in users:
            self._use(user, name, reading)
        if self._is_needed({name}):
            if not can_repeat and users:
                raise CannotDefer(f"{name} is used in the loop and behind it")
            self.last[f"{name} = {reading}"] = None

    def _use(self, user: ast.stmt, name: str, reading: str) -> None:
        self.done.add(user)
        collected = _collected(user)
        if only_shows(self.file, user) and stands_alone(self.file, user):
            if self._is_rare(user):
                self.edits.append(before(self.file, user, f"{name} = {reading}"))
            else:
                self.shown.setdefault(user, []).append(f"{name} = {reading}")
        elif collected and _is_name(collected[1], name):
            whole = ast.parse(reading, mode="eval").body
            read = read_in(SourceFile(self.file.name, reading), whole)
            assert read is not None
            self._keep(collected[0], read)
        elif isinstance(user, ast.AugAssign):
            self._add_up(user)
        else:
            raise CannotDefer(f"{name} is needed in line {user.lineno}")

    def _users(self, names: set[str], statement: ast.stmt) -> list[ast.stmt]:
        """The other statements of the loop that read names."""
        loads = [n for name in names for n in loads_of(name, [self.loop])]
        found = {s: None for n in loads if (s := statement_of(self.file, n)) is not None}
        return [s for s in found if s is not statement]

    def _is_needed(self, names: set[str]) -> bool:
        """Whether something outside of the loop reads names."""
        inside = set(ast.walk(self.loop))
        scope = scope_of(self.file, self.loop)
        return any(is_load(n) and n.id in names and n not in inside for n in ast.walk(scope))

    def _can_wait(self, statement: ast.Assign, names: set[str]) -> bool:
        """Whether the last turn's value is all that is used, and is the same behind the loop."""
        if statement not in self.loop.body or self.loop.orelse:
            return False
        if any(isinstance(n, ast.Break | ast.Continue | ast.Return) for n in ast.walk(self.loop)):
            return False
        later = self.loop.body[self.loop.body.index(statement) + 1 :]
        return not bound(later) & (loaded([statement.value]) | names)

    def _is_rare(self, statement: ast.stmt) -> bool:
        """Whether a statement already waits for a step: it stands below `if step % 10 == 0`."""
        conditions = self.file.enclosing(statement, ast.If)
        return any(
            isinstance(n, ast.Mod)
            for c in conditions
            if isinstance(c, ast.If) and self.loop in loops_around(self.file, c)
            for n in ast.walk(c.test)
        )

    def _begins_empty(self, name: str) -> bool:
        """Whether a list is made just before the loop."""
        block = block_of(self.file, self.loop)
        above = block[: block.index(self.loop)]
        made = [s for s in above if _makes_list(s, name)]
        if not made:
            return False
        return all(
            name not in map(ast.unparse, _expressions(s))
            for s in above[above.index(made[-1]) + 1 :]
        )

    def _is_list(self, name: str) -> bool:
        return any(
            isinstance(s, ast.stmt) and _makes_list(s, name) for s in ast.walk(self.file.tree)
        )

    def _is_append_or_length(self, node: ast.expr) -> bool:
        parent = self.file.parents.get(node)
        if isinstance(parent, ast.Attribute):
            return parent.attr == "append"
        return isinstance(parent, ast.Call) and _is_name(parent.func, "len")

    def _replace(self, node: ast.expr, text: str) -> None:
        begin, end = self.file.span(node)
        self.edits.append(Replace(file=self.file.name, begin=begin, end=end, text=text))

    def _groups(self) -> list[list[ast.stmt]]:
        """What is shown, statements below each other together."""
        groups: list[list[ast.stmt]] = []
        for statement in sorted(self.shown, key=lambda s: s.lineno):
            block = block_of(self.file, statement)
            at = block.index(statement)
            if groups and at and block[at - 1] is groups[-1][-1]:
                groups[-1].append(statement)
            else:
                groups.append([statement])
        return groups

    def _under(self, group: list[ast.stmt], counter: Counter | None) -> list[Edit]:
        assert counter is not None
        first = dict.fromkeys(line for s in group for line in self.shown[s])
        return under(self.file, group, f"if {counter.name} % {EVERY} == 0:", *first)


def _collected(statement: ast.stmt) -> tuple[ast.expr, ast.expr] | None:
    """The container and the value of `container.append(value)`."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    if call.func.attr != "append" or len(call.args) != 1:
        return None
    return call.func.value, call.args[0]


def _makes_list(statement: ast.stmt, name: str) -> bool:
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
        return False
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    value = statement.value
    is_list = isinstance(value, ast.List) or (
        isinstance(value, ast.Call) and _is_name(value.func, "list") and not value.args
    )
    is_empty = is_list and not getattr(value, "elts", [])
    return is_empty and name in map(ast.unparse, targets)


def _names(statement: ast.Assign) -> set[str]:
    """The names that an assignment gives; empty where it gives something else too."""
    parts = [n for t in statement.targets for n in ast.walk(t)]
    plain = all(isinstance(n, ast.Name | ast.Tuple | ast.List | ast.expr_context) for n in parts)
    return {n.id for n in parts if isinstance(n, ast.Name)} if plain else set()


def _expressions(statement: ast.stmt) -> list[ast.expr]:
    return [n for n in ast.walk(statement) if isinstance(n, ast.expr)]


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
