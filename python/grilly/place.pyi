from grilly.inputs import *
