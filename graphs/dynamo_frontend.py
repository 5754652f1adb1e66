"""The default graph behind Dynamo's own, unmodified frontend: `/v1/realtime` only."""

from auricle.launcher.graph import component
from graphs.e_pd import Frontend

DynamoFrontend = component("DynamoFrontend").link(Frontend)
