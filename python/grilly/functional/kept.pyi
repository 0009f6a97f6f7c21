from grilly.functional.dispatch import *
