"""The front door under heavy uploads: does it still answer, and do live sessions notice?"""
