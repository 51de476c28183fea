"""Visual regression: two folders of images compared pair by pair, reported, approved."""

from spotchange.regression.one_pair import ComparedFile
from spotchange.regression.plan import FolderPlan, plan_folders
from spotchange.regression.run import FolderComparison, compare_folders
from spotchange.regression.settings import CompareSettings

__all__ = ["CompareSettings", "ComparedFile", "FolderComparison", "FolderPlan", "compare_folders", "plan_folders"]
