from grilly.padding import *
