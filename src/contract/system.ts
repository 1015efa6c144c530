import { Type } from 'typebox';
import { type ContentDoc, page, type RouteDoc, record, text } from './route-doc.ts';

/** Routes about the gateway itself. */

const hello = record('Hello', {
  name: Type.Literal('Tollgate'),
  version: text(),
  chat: text(),
  models: text(),
  dashboard: text(),
  docs: text(),
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

export const systemDocs = {
  hello: { summary: 'Who is there', answers: { 200: hello } },
  alive: {
    summary: 'Alive',
    details: 'Asks nothing of the store: for restarts.',
    answers: { 200: alive },
  },
  ready: {
    summary: 'Ready for requests',
    details:
      '503 while it shuts down, its store does not answer or only reads, or its journal cannot ' +
      'be written: for load balancers.',
    answers: { 200: alive, 503: notReady },
  },
  metrics: { summary: 'Metrics for Prometheus', answers: { 200: plainText } },
  openApi: {
    summary: 'This interface as OpenAPI 3.1',
    details: 'Generated from the schemas that validate requests.',
    answers: { 200: Type.Object({ openapi: Type.Literal('3.1.0') }) },
  },
  dashboard: { summary: 'The dashboard', answers: { 200: page } },
  dashboardFile: {
    summary: 'A page or a file of the dashboard',
    path: { path: 'Where in the dashboard.' },
    answers: { 200: dashboardFiles },
  },
  reference: { summary: 'This reference as a page', answers: { 200: page } },
} satisfies Record<string, RouteDoc>;
