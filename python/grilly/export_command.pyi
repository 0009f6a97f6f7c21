from grilly.commands.export import *
