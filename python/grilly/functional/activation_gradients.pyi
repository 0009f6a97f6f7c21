from grilly.functional.activations import *
