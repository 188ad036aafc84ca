"""The vault's file formats: pure text to data and back, no file is opened here.

strict_yaml   YAML without tags, anchors and aliases; the place of every value in the text
block         core/<label>.yaml, rewritten only where its value stands
note          archival/**/*.md: front matter, then Markdown
day           recall/YYYY/MM/YYYY-MM-DD.md: one message after the other
settings      memory.yaml and queue.yaml
"""
