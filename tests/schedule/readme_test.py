"""The tables in READMEs between '<!-- tutti verify ... -->' and '<!-- end -->' are that command's output."""
import re
import subprocess
import sys

tutti, *readmes = sys.argv[1:]
tables = 0
for path in readmes:
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for arguments, table in re.findall(r"<!-- tutti (verify [^>]*) -->\n(.*?)\n<!-- end -->", text, re.S):
        command = [tutti, *arguments.split()]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        assert output == table.strip(), f"{path}: not what `tutti {arguments}` says now:\n{output}"
        assert output.count("| `") >= 8, "a table of the algorithms"
        tables += 1
assert tables > 0, "no table found"
print(tables, "tables are up to date")
