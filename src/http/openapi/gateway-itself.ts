import { Type } from 'typebox';
import { type ContentDoc, page, type RouteDoc, record, text } from './doc.ts';

/** Routes about the gateway itself. */

const hello = record('Hello', {
  name: Type.Literal('Tollgate'),
  version: text(),
  chat: text(),
  models: text(),
});
const alive = record('Alive', { status: Type.Literal('ok'), version: text() });
const notReady = record('NotReady', { status: Type.Literal('unavailable'), reason: text() });
const plainText: ContentDoc = { types: { 'text/plain': Type.String() } };

const dashboardFiles: ContentDoc = {
  types: {
    'text/html': Type.String(),
    'text/javascript': Type.String(),
    'text/css': Type.String(),
    'image/svg+xml': Type.String(),
  },
};

const open = (summary: string, answers: RouteDoc['answers'], details?: string): RouteDoc => ({
  summary,
  answers,
  ...(details ? { details } : {}),
});

export const serviceDocs = {
  hello: open('Who is there', { 200: hello }),
  alive: open('Alive', { 200: alive }, 'Asks nothing of the store: for restarts.'),
  ready: open(
    'Ready for requests',
    { 200: alive, 503: notReady },
    '503 while it shuts down or its store does not answer or only reads: for load balancers.',
  ),
  metrics: open('Metrics for Prometheus', { 200: plainText }),
  openApi: open(
    'This interface as OpenAPI 3.1',
    { 200: Type.Object({ openapi: Type.Literal('3.1.0') }) },
    'Generated from the schemas that validate requests.',
  ),
  dashboard: open('The dashboard', { 200: page }),
  dashboardFile: {
    ...open('A page or a file of the dashboard', { 200: dashboardFiles }),
    path: { path: 'Where in the dashboard.' },
  },
  reference: open('This reference as a page', { 200: page }),
} satisfies Record<string, RouteDoc>;
