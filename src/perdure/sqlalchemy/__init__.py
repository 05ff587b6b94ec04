"""Starts and messages in transactions of SQLAlchemy on another database than Perdure's: an outbox table, and its relay in the engines of an App.

metadata = MetaData()                       # or Base.metadata, so that Alembic makes the table
outbox = SqlalchemyOutbox(create_engine("postgresql+psycopg://…"), metadata)
app = App([order], outbox=outbox)

with Session(engine) as session, session.begin():
    session.add(Order(id="o1"))
    shop.start(order.with_(id="o1", connection=session), "o1")
"""

from perdure.sqlalchemy.sqlalchemy_outbox import SqlalchemyOutbox
from perdure.sqlalchemy.transaction_session import connection_on, session_on

__all__ = ["SqlalchemyOutbox", "connection_on", "session_on"]
