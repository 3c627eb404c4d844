"""
Files of other job runners → one fusion.yaml.

1. input_files.py     the text of a file, within limits; foreign_yaml.py: YAML as other programs write it
2. running_application.py   of Celery and RQ, the settings that the application has once it is loaded;
                      task_names.py: the names of its tasks, from its source
3. one module for each runner: what its files say becomes entries of a draft, or a sentence on why it cannot
4. draft.py           what was found so far
5. draft_text.py      the draft as a commented file
6. finished_file.py   has that file loaded, and comments out each entry that the loader refuses

Loaded by `fusiond import` only.
"""
