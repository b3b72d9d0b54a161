"""`tinytensor completion bash | zsh`: a script with which a shell completes subcommands, options and values.

The script is made from the parsers of the subcommands, so it holds what --help shows. zsh runs it as bash does.
"""

import argparse
import shlex
from collections.abc import Iterable

from tinytensor.cli.main import OWN, added

SHELLS = ("bash", "zsh")

SCRIPT = """\
_tinytensor() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" task=text words="" name i
    for (( i = 2; i < COMP_CWORD - 1; i++ )); do
        if [ "${{COMP_WORDS[i]}}" = --task ]; then task="${{COMP_WORDS[i+1]}}"; fi
    done
    name="${{COMP_WORDS[1]}}"
    if [ "$name" = train ]; then name="train-$task"; fi
    if [ "$COMP_CWORD" -eq 1 ]; then
        words={subcommands}
    else
        case "$name $before" in
{values}
        esac
        if [ "${{current:0:1}}" = - ]; then
            case "$name" in
{options}
            esac
        fi
    fi
    COMPREPLY=( $(compgen -W "$words" -- "$current") )
}}
complete -o default -F _tinytensor tinytensor
"""  # -o default: names of files, where there are no words


def script(shell: str, parsers: dict[str, argparse.ArgumentParser], subcommands: list[str]) -> str:
    """The script for a shell: the options of each parser, by the name of its subcommand (train-TASK for training)."""
    values, options = [], []
    for name, parser in parsers.items():
        words = []
        for action in parser._actions:
            words += [word for word in action.option_strings if word.startswith("--")]
            if action.choices and action.option_strings:
                patterns = "|".join(shlex.quote(f"{name} {word}") for word in action.option_strings)
                values.append(f"            {patterns}) words={_listed(action.choices)} ;;")
        options.append(f"                {shlex.quote(name)}) words={_listed(words)} ;;")
    made = SCRIPT.format(subcommands=_listed(subcommands), values="\n".join(values), options="\n".join(options))
    return made if shell == "bash" else f"autoload -U +X bashcompinit && bashcompinit\n{made}"


def _listed(words: Iterable[str]) -> str:
    return shlex.quote(" ".join(words))


def main(arguments: list[str], program: str) -> int:
    """Print the script."""
    about = "Print a script with which a shell completes the command tinytensor. In bash: "
    about += f"{program} bash > ~/.local/share/bash-completion/completions/tinytensor; in zsh: "
    about += f'{program} zsh > ~/.tinytensor-completion, and "source ~/.tinytensor-completion" in ~/.zshrc.'
    parser = argparse.ArgumentParser(program, description=about)
    parser.add_argument("shell", choices=SHELLS)
    shell = parser.parse_args(arguments).shell
    parsers = {name: parser for module in dict.fromkeys(added().values()) for name, parser in module.parsers().items()}
    print(script(shell, parsers, [*added(), *OWN]), end="")
    return 0
