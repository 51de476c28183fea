"""The files that `spotchange compare` writes: refused before the work where they may not be, written at its end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spotchange.cli.output import HTML, check_result_file
from spotchange.errors import InputError
from spotchange.files import json_text, write_text
from spotchange.storage import check_writable

if TYPE_CHECKING:
    from spotchange.regression import FolderComparison
    from spotchange.regression.one_pair import Outputs


@dataclass(frozen=True, kw_only=True)
class ResultFiles:
    """Where each kind of result goes; None: it is not wanted."""

    out: Path | None
    report: Path | None
    junit: Path | None
    markdown: Path | None
    diff_dir: Path | None

    @property
    def written_last(self) -> tuple[Path | None, ...]:
        """Those that are whole only when all pairs are compared; images are there as soon as their pair is."""
        return self.out, self.report, self.junit, self.markdown

    def check(self, before: Path, after: Path) -> None:
        """Refuse to write over what is compared, over anything that is no earlier result, or where nothing can be."""
        from spotchange.reports.ci import HEADING

        if self.diff_dir is not None:
            check_writable(self.diff_dir, "--diff-dir")
        check_result_file("--out", self.out, begins='{"id": ')
        check_result_file("--report", self.report, begins=HTML)
        check_result_file("--junit", self.junit, begins="<?xml")
        check_result_file("--markdown", self.markdown, begins=HEADING)
        for folder in (before, after):
            if self.diff_dir is not None and self.diff_dir.resolve().is_relative_to(folder.resolve()):
                raise InputError(
                    f"--diff-dir {self.diff_dir} lies in {folder}, which is compared", hint="choose another folder"
                )

    def of_pairs(self) -> Outputs:
        """What is drawn of every pair that differs, and how."""
        from spotchange.regression.one_pair import Outputs

        if self.report is None:
            return Outputs(diff_dir=self.diff_dir)
        from spotchange.reports.comparison_view import comparison_view
        from spotchange.reports.pair_view import single_view

        files = self.report.with_name(f"{self.report.stem}_files")
        return Outputs(
            diff_dir=self.diff_dir,
            pair_view=comparison_view,
            single_view=single_view,
            files_dir=files,
            link=files.name,
        )

    def write(self, compared: FolderComparison) -> None:
        """All but the images, which are there already."""
        from spotchange.reports.ci import junit_xml, markdown_summary
        from spotchange.reports.pair_report import comparison_html

        if self.out is not None:
            write_text(self.out, "".join(json_text(each.to_dict()) + "\n" for each in compared.files))
        if self.report is not None:
            write_text(self.report, comparison_html(compared))
        if self.junit is not None:
            write_text(self.junit, junit_xml(compared))
        if self.markdown is not None:
            write_text(self.markdown, markdown_summary(compared))
