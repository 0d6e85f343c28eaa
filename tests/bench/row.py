"""A row of the comparison: one piece of work, one figure a broker."""

import sys
import traceback
from dataclasses import dataclass, field

from brokers import Failed


@dataclass
class Row:
    """`what` names the figure with its unit. `figures` are by the brokers' names. `target` is the bound for vowmq, none
    where there is nothing to hold it against; `more_is_better` says on which side of it one has to be. `group` says
    which rows share a panel of the chart; none: not drawn. `key` finds the row again."""

    key: str
    work: str
    what: str
    target: float | None = None
    target_text: str = ""
    more_is_better: bool = False
    group: str | None = None
    figures: dict = field(default_factory=dict)
    notes: list = field(default_factory=list)
    met: bool | None = None
    failed: bool = False

    def measure(self, name, work):
        """Takes what `work` returns as the figure of the broker `name`; what fails is noted, and the rest goes on."""
        try:
            self.figures[name] = work()
        except (Failed, OSError, ValueError, KeyError, AssertionError) as error:
            if not isinstance(error, Failed):
                traceback.print_exc()
            self.failed = True
            self.notes.append(f"{name}: {error}")
        shown = self.figures.get(name)
        print(f"  {self.work}: {name} {'failed' if shown is None else f'{shown:,.2f}'} {self.what}", file=sys.stderr)

    def judge(self):
        """Whether vowmq reaches the target; unknown where either is missing."""
        figure = self.figures.get("vowmq")
        if self.met is None and figure is not None and self.target is not None:
            self.met = figure >= self.target if self.more_is_better else figure <= self.target
        return self

    def ratio(self, other):
        """How many times better vowmq is than the broker `other`."""
        mine, theirs = self.figures.get("vowmq"), self.figures.get(other)
        if not mine or not theirs:
            return None
        return mine / theirs if self.more_is_better else theirs / mine
