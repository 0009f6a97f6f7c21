from grilly.commands.demo import *
