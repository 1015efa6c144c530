import { Type } from 'typebox';
import { record, type Shape, text } from './fields.ts';
import { type ContentDoc, page, type RouteDoc } from './route-doc.ts';

// Routes about the gateway itself.

const helloSchema = record('Hello', {
  name: Type.Literal('Tollgate'),
  version: text(),
  chat: text(),
  models: text(),
  dashboard: text(),
  docs: text(),
});
export type HelloObject = Shape<typeof helloSchema>;

const aliveSchema = record('Alive', { status: Type.Literal('ok'), version: text() });
export type AliveObject = Shape<typeof aliveSchema>;

const readySchema = record('Ready', {
  status: Type.Literal('ok'),
  version: text(),
  warning: Type.Optional(text()),
});
export type ReadyObject = Shape<typeof readySchema>;

const notReadySchema = record('NotReady', { status: Type.Literal('unavailable'), reason: text() });
export type NotReadyObject = Shape<typeof notReadySchema>;

const plainText: ContentDoc = { types: { 'text/plain': Type.String() } };

const dashboardFiles: ContentDoc = {
  types: {
    'text/html': Type.String(),
    'text/javascript': Type.String(),
    'text/css': Type.String(),
    'image/svg+xml': Type.String(),
  },
};

export const systemDocs = {
  hello: { summary: 'Get the name and version', responses: { 200: helloSchema } },
  alive: {
    summary: 'Check that the process is alive',
    details: "For liveness probes. It doesn't depend on the store.",
    responses: { 200: aliveSchema },
  },
  ready: {
    summary: 'Check that the gateway can take requests',
    details:
      'For load balancers. Returns 503 during shutdown, while the store is unreachable or ' +
      "read-only, and while the journal can't be written.",
    responses: { 200: readySchema, 503: notReadySchema },
  },
  metrics: { summary: 'Get metrics for Prometheus', responses: { 200: plainText } },
  openApi: {
    summary: 'Get this API as OpenAPI 3.1',
    details: 'Generated from the schemas that validate requests.',
    responses: { 200: Type.Object({ openapi: Type.Literal('3.1.0') }) },
  },
  dashboard: { summary: 'Open the dashboard', responses: { 200: page } },
  dashboardFile: {
    summary: 'Get a page or file of the dashboard',
    path: { path: 'A path within the dashboard.' },
    responses: { 200: dashboardFiles },
  },
  reference: { summary: 'Open this reference as a page', responses: { 200: page } },
} satisfies Record<string, RouteDoc>;
