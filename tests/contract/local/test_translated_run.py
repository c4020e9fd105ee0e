"""A command line of the reference, translated, runs."""

import subprocess

from tests.cluster.harness.evidence import assert_every_prompt_once
from tests.cluster.harness.model import ModelServer
from tests.contract.local.support import BATCHRUN, Workplace, environment


def test_a_translated_command_line_validates_and_runs_and_is_exported(place: Workplace, model: ModelServer) -> None:
    prompts = [{"prompt": f"Prompt {number}."} for number in range(4)]
    place.prompts(prompts)
    words = ["python", "batch_runner.py", "--dataset_file=prompts.jsonl", "--batch_size", "2", "--run_name=here",
             "--model=demo/scripted", f"--base_url={model.base_url}", "--max_turns=8", "--num-workers=2",
             "--distribution=development", "--api_key=sk-0123456789abcdef", "--noresume",
             "--max_tokens=500"]  # fmt: skip

    def batchrun(*arguments: str) -> str:
        done = subprocess.run(
            [str(BATCHRUN), *arguments],
            cwd=place.folder, env=environment(), capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        assert done.stderr == ""
        return done.stdout

    (place.folder / "run.yaml").write_text(batchrun("translate", "--", *words))
    batchrun("validate", "--local", "run.yaml")
    done = place.run("--sandbox", "process")

    assert (done.returncode, done.stderr) == (0, "")
    assert_every_prompt_once(place.rows(), prompts)
    assert {row["sampling"] for row in place.rows()} == {'{"max_tokens":500}'}
    assert "4 rows" in batchrun("export", "out/here", "--format", "openai")
    assert len((place.result / "trajectories.openai.jsonl").read_text().splitlines()) == len(prompts)
