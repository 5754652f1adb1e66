"""Find sentences that an engineer of the field would not write.

`python -m tests.english [PATH ...]` prints every finding as path:line: rule: text.

It reads Markdown, and of Python the docstrings, the comments and the sentences in string
literals (log lines, errors, help). The rules name patterns that made this project's text hard to
read: clauses without a subject, code that speaks or knows, and words that are not the usual ones.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]

# The name of a rule is its advice.
RULES = {
    "name the subject: the client that …, a caller that …": re.compile(
        r"(?:^|[.:;!?]\s+|\b(?:for|of|by|to|and|with|or)\s+)[Ww]ho(?:ever)? "
        r"(?:asks?|has|is|wants?|places?|does|gives?|knows|sends?|needs?|comes?|speaks?|reads?)\b"
    ),
    "name the thing instead of a 'what' clause": re.compile(
        r"\b[Ww]hat (?:is|was|are|were|it|they|has|have|had|of|does|did|comes?|came|a|an|the|one|"
        r"each|every|no|only|all)\b"
    ),
    "no, not, without": re.compile(r"\b(?:is|are|was|were) no (?!longer\b|more\b|less\b)[a-z]+"),
    "no client, no worker, a caller: name them": re.compile(r"\b(?:nobody|somebody)\b", re.I),
    "otherwise": re.compile(r"(?:^|[.;:,]\s+)[Ee]lse\b(?! if\b)|\belse it\b"),
    "continues": re.compile(r"\b(?:go|goes|going|went|gone) on\b(?! (?:a|an|the)\b)"),
    "the number, the duration, that many": re.compile(r"(?<!, )\bso (?:many|long)\b"),
    "next to, in addition to, except": re.compile(r"\bbesides?\b"),
    "is notified, receives, is reported": re.compile(
        r"\b(?:is|are|was|were|be|been|being) (?:told|heard|said)\b"
    ),
    "code reports, states, returns, receives": re.compile(r"\b(?:hears|knows|says|tells)\b"),
    "repeat the noun": re.compile(r"\b(?:that|those) of\b"),
    "of these, whose, with": re.compile(r"\bof which\b"),
    "in progress, running, pending": re.compile(r"\bin work\b|\bunder way\b"),
    "unchanged": re.compile(r"\bas (?:it is|they are|it was|they were)(?= *(?:[,.;:)]|$))"),
}


# These files contain odd sentences as examples.
_EXAMPLES = {"tests/english.py", "tests/unit/test_english.py"}

# Their string literals are speech, prompts of models, or messages of libraries, not our sentences.
QUOTATIONS = {
    "benchmarks/annotations/mixtures.py",
    "models/tests/test_neural_voices.py",
    "models/tests/test_translate_training.py",
    "models/training/recordings.py",
    "models/training/translate/instructions.py",
    "models/training/translate/prompts.py",
    "tests/integration/faulty_worker.py",
    "tests/integration/test_engine_faults.py",
    "tests/unit/annotation/speakers/test_speaker_model.py",
    "tests/unit/process/test_device_faults.py",
    "tests/unit/tools/test_status.py",
    "tests/unit/workers/pd/test_other_models.py",
    "tests/unit/workers/translate/test_translate_worker.py",
}


class Finding(NamedTuple):
    path: Path
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


def sentences_of_markdown(text: str) -> Iterator[tuple[int, str]]:
    """Paragraphs outside code blocks, headings and questions, with their first line."""
    paragraph: list[str] = []
    start, in_code = 1, False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        fence = line.lstrip().startswith(("```", "~~~"))
        if fence:
            in_code = not in_code
        if in_code or fence or not line.strip() or line.startswith("#"):
            if paragraph:
                yield start, " ".join(paragraph)
            paragraph = []
            continue
        # A row of a table and an item of a list are paragraphs of their own.
        if paragraph and re.match(r"\s*(?:[-*|]|\d+\.)", line):
            yield start, " ".join(paragraph)
            paragraph = []
        if not paragraph:
            start = number
        paragraph.append(line.strip())


def sentences_of_python(source: str, *, literals: bool = True) -> Iterator[tuple[int, str]]:
    """Docstrings, blocks of comments and, if wanted, string literals of three words or more."""
    tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if not literals and node not in docstrings:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for part in re.split(r"\n\s*\n", node.value):
                if len(part.split()) >= 3:
                    yield node.lineno, " ".join(part.split())
    block: list[str] = []
    start = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        if token.start[0] != last + 1 and block:
            yield start, " ".join(block)
            block = []
        if not block:
            start = token.start[0]
        block.append(token.string.lstrip("#: "))
        last = token.start[0]
    if block:
        yield start, " ".join(block)


def without_code(text: str) -> str:
    """The text without `code`, "quotations" and the addresses of links."""
    text = re.sub(r"``.+?``|`[^`]*`|\]\([^)]*\)", "…", text)
    return re.sub(r"\"[^\"]{1,80}\"|“[^”]{1,80}”", "…", text)


def findings(path: Path) -> list[Finding]:
    text = path.read_text()
    if path.suffix == ".py":
        ours = str(path.relative_to(ROOT)) not in QUOTATIONS
        sentences = sentences_of_python(text, literals=ours)
    else:
        sentences = sentences_of_markdown(text)
    found = []
    for line, sentence in sentences:
        plain = without_code(sentence)
        for rule, pattern in RULES.items():
            for match in pattern.finditer(plain):
                end_of_sentence = re.search(r"[.?!](?:\s|$)", plain[match.end() :])
                if end_of_sentence and end_of_sentence.group()[0] == "?":
                    continue
                around = plain[max(0, match.start() - 40) : match.end() + 40]
                found.append(Finding(path.relative_to(ROOT), line, rule, around.strip()))
    return found


def checked_files(*folders: str) -> list[Path]:
    """Tracked Markdown and Python files below `folders` (all that the rules hold for, if none)."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *folders], cwd=ROOT, capture_output=True, check=True
    ).stdout.decode()
    return [
        ROOT / name
        for name in listed.split("\0")
        if name.endswith((".py", ".md")) and (ROOT / name).exists() and name not in _EXAMPLES
    ]


def main() -> None:
    found = [finding for path in checked_files(*sys.argv[1:]) for finding in findings(path)]
    print("\n".join(map(str, found)))
    print(f"{len(found)} findings")


if __name__ == "__main__":
    main()
