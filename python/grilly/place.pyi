from grilly.inputs import Place as Place
