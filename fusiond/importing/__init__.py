"""
Files of other job runners → one fusion.yaml.

1. input_files.py     the text of a file, within limits
2. foreign_yaml.py    YAML as other programs write it; python_settings.py: settings in Python, which are never run
3. one module for each runner: what its files say becomes entries of a draft, or a sentence on why it cannot
4. draft.py           what was found so far
5. draft_text.py      the draft as a commented file
6. finished_file.py   has that file loaded, and comments out each entry that the loader refuses

Loaded by `fusiond import` only.
"""
