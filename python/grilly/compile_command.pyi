from grilly.commands.compile import *
