from grilly.vocabulary import *
