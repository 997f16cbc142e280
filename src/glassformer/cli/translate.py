"""glassformer translate"""

import sys
from pathlib import Path

from glassformer.cli.options import Parser, arguments_of
from glassformer.cli.terminal.inputs import blocks_of, check_lines, refuse_files, writer_to
from glassformer.cli.terminal.parts import answer_parts, takes_parts
from glassformer.cli.terminal.show import print_json, say
from glassformer.config.errors import Misuse
from glassformer.data.wording import counted
from glassformer.decoding.options import SEARCH_OPTIONS, Search
from glassformer.verbs.parts.options import Shard

PARSER = Parser("translate", checks={"file": check_lines, "shard": Shard.parse})


def run(argv: list[str]) -> None:
    options = PARSER.read(argv)
    if options.text is not None and options.file is None:
        raise Misuse("--text goes with --file")
    how = {name: getattr(options, name) for name in SEARCH_OPTIONS}
    Search.of(**how)  # refuse wrong options before anything is loaded
    is_folder = takes_parts(options)
    if None not in (options.file, options.out) and Path(options.file).resolve() == Path(options.out).resolve():
        raise Misuse(f"--out {options.out} is the file that is translated: give it another name")
    refuse_files(options.texts)

    from glassformer.cli.terminal.show import RowProgress
    from glassformer.families.load import load_for
    from glassformer.verbs.files import translate_file, translation_lines

    if is_folder:
        answer_parts(options, translate_file)
        return
    loaded = load_for("translate", options.run, options.device, say, precision=options.precision)
    written = None
    if options.file is not None:
        with RowProgress(printed=options.out is None):
            arguments = {**arguments_of(options, translate_file), "run": loaded, "out": options.out or sys.stdout}
            if options.json and options.out is None:
                arguments["format"] = "jsonl"
            written = translate_file(**arguments, say=say)
        count = written.rows
    else:
        count = 0
        with writer_to(options.out) as to:
            for block in blocks_of(options.texts):
                translations = loaded.translate(block, **how, say=say)
                to.writelines(translation_lines(translations, to, count, options.nbest, as_json=options.json))
                to.flush()
                count += len(translations)
    if options.out is not None:
        say(f"{counted(count, 'line')} written to {options.out}")
        if options.json and written is not None:
            print_json(written.to_dict())
