from grilly.hub import *
